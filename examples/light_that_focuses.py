"""Light that focuses itself: a beam in a random medium, from faint to bright.

python examples/light_that_focuses.py      prints a line for each strength, draws the brightest
"""

from __future__ import annotations

import numpy as np

import neuralsolver as ns
from neuralsolver.data.wave_media import random_medium

points, wavelengths = 64, 8
medium = random_medium(np.random.default_rng(1), points, "smooth", contrast=0.2)
for strength in (0.0, 0.05, 0.2, 0.4):
    waves = ns.Waves(medium, 2 * np.pi * wavelengths, strength=strength)
    wave = waves.solve()
    print(
        f"strength {strength:.2f}: largest amplitude {wave.amplitude.max():.2f}, "
        f"residual {wave.residual:.0e}, {wave.method}"
    )
wave.plot("light.png")
