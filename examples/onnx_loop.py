"""The loop around an exported network, in plain numpy and ONNX Runtime: no torch is needed.

    ens export poisson --output poisson-onnx        writes the two networks
    python examples/onnx_loop.py poisson-onnx

One step of the contractive recipe for Δu = a f, with h = 1/63:

    r = Δu − a f,   two weighted Jacobi sweeps u ← u + ω h²/4 r,   u ← u + β ρ C(r/ρ),  ρ = RMS(r)

step size β and sweeps are on the card of the model (`solver` in card.json).
"""

import sys
from math import cos, pi
from pathlib import Path

import numpy as np
import onnxruntime

N, SCALE = 64, 2.0  # points a side, the factor a
STEP_SIZE, SWEEPS = 0.05, 2


def residual(u: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Δu − a f inside, zero on the boundary."""
    r = np.zeros_like(u)
    neighbours = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    r[1:-1, 1:-1] = (neighbours - 4 * u[1:-1, 1:-1]) * (N - 1) ** 2 - SCALE * f[1:-1, 1:-1]
    return r


def main(folder: Path) -> None:
    corrector = onnxruntime.InferenceSession(folder / "corrector.onnx")
    name = corrector.get_inputs()[0].name
    weights = [1 / (1.25 + 0.75 * cos(pi * (j + 0.5) / SWEEPS)) for j in range(SWEEPS)]
    x, y = np.meshgrid(np.linspace(0, 1, N), np.linspace(0, 1, N), indexing="ij")
    f = 100 * np.sin(5 * x) * np.cos(3 * y)
    u = np.zeros((N, N))
    first = np.linalg.norm(residual(u, f))
    for step in range(1, 16):
        for weight in weights:
            u += weight * residual(u, f) / (4 * (N - 1) ** 2)
        r = residual(u, f)
        size = np.sqrt(np.mean(r**2))
        (answer,) = corrector.run(None, {name: (r / size)[None, None].astype(np.float32)})
        u[1:-1, 1:-1] += STEP_SIZE * size * answer[0, 0, 1:-1, 1:-1]
        print(f"step {step}: relative residual {np.linalg.norm(residual(u, f)) / first:.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
