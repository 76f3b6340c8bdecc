"""A box of three dimensions, and many sources at once.

python examples/boxes_and_batches.py
"""

import numpy as np

import neuralsolver as ns
from neuralsolver.solvers import solve_batch

# a layer of clay, a hundred times less permeable than the sand around it, and a well in a corner
permeability = np.full((40, 40, 40), 10.0)
permeability[18:22, :, :30] = 0.1
source = np.zeros_like(permeability)
source[30, 8, 8] = 40.0**3
problem = ns.Problem(ns.Darcy(source="field"), np.stack([permeability, source]), lengths=(1, 1, 1))
solution = ns.load("darcy-box").solve(problem, tolerance=1e-8)
print(solution.summary())
solution.plot("box.png")

# twenty sources in parts, one thread for each core
problem = ns.Problem.random(ns.Helmholtz(wavenumber=1.5), 64, count=20)
solution = solve_batch(
    ns.load("helmholtz"), problem, report=lambda done, total: print(f"{done} of {total} solved")
)
print(solution.summary())
