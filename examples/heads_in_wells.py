"""Transmissivity of an aquifer from the heads in 30 wells, in metres."""

from __future__ import annotations

from pathlib import Path

import neuralsolver as ns
from neuralsolver.equations.sensors import Table

SIDE = 1200.0  # metres
RECHARGE = 0.001  # metres a day
RIVER = 95.0  # metres above the sea: the head along all four sides


def main() -> None:
    columns = ("easting_m", "northing_m", "head_m", "error_m")
    table = Table(columns, "solution", (SIDE, SIDE), offset=RIVER)
    wells = ns.Sensors.read(Path(__file__).with_name("heads.csv"), table=table)
    # −∇·(T∇h) = recharge in metres is −∇·(T∇h) = recharge · side² on the unit square
    aquifer = ns.Darcy(source=RECHARGE * SIDE**2, low=30.0, high=120.0)  # square metres a day
    samples = ns.invert(ns.Observed(aquifer, 64, wells), samples=8)
    print(samples.summary())
    probability = samples.probability
    assert probability is not None
    for x, y in ((300.0, 300.0), (900.0, 300.0), (900.0, 1100.0)):
        there = float(probability[round(x / SIDE * 63), round(y / SIDE * 63)])
        print(f"at ({x:.0f} m, {y:.0f} m) sand, not silt, with probability {there:.2f}")


if __name__ == "__main__":
    main()
