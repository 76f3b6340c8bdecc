"""The bits of every answer, whatever the number of BLAS threads."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
from neuralsolver import reference as r
rng = np.random.default_rng(0)
digest = hashlib.sha256()
for n in (64, 100, 128, 199, 256):
    f = r.cosine_field(rng, n)[None]
    digest.update(f.tobytes())
    digest.update(r.solve_shifted_laplacian(f, 4.0).tobytes())
    digest.update(r.solve_darcy(r.two_phase(f, 3.0, 12.0), 100.0).u.tobytes())
    digest.update(r.solve_semilinear_helmholtz(50 * f, 3.0, 4.0).u.tobytes())
w = r.periodic_field(rng, 64)[None]
digest.update(r.integrate(w, r.kolmogorov_forcing(64), 1e-3, [0.5]).tobytes())
print(digest.hexdigest())
"""


def test_the_number_of_blas_threads_does_not_show() -> None:
    def digest(threads: str) -> str:
        settings = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", PROGRAM]
        run = subprocess.run(
            command, env=os.environ | settings, capture_output=True, text=True, check=True
        )
        return run.stdout

    assert digest("1") == digest("2") == digest("3")
