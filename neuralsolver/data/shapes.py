"""Problems on random shapes with their solutions: what a corrector that reads shapes learns from.

    −∇·(a∇u) = f  where u is free,    u = g  where it is held

with shapes of `reference.random_shapes`. a is constant, of two phases, or smooth with a contrast of
up to some thirty; f is one or a smooth field, g zero or a smooth field. Solutions are those of a
sparse factorisation. They are drawn when asked for, and kept in memory: sample i depends on
(seed, i) only.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Darcy, FixedValues, Problem, generator
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.reference.random_fields import cosine_field, two_phase
from neuralsolver.reference.random_shapes import random_shape
from neuralsolver.solvers.sparse_newton import factorised

KEY = 41
CHUNK = 50


class ShapedExamples:
    """`count` random problems on a grid of n × n points.

    >>> examples = ShapedExamples(2, 16)
    >>> problem, solution = examples.posed([0, 1])
    >>> float(problem.residual(solution).abs().max()) < 1e-8
    True
    """

    equation = Darcy(source="field")

    def __init__(self, count: int, resolution: int, seed: int = 0) -> None:
        drawn = [_draw(generator(seed, KEY, i), resolution) for i in range(count)]
        inputs, held, values = (np.stack(part) for part in zip(*drawn, strict=True))
        self.inputs, self.held = torch.from_numpy(inputs), torch.from_numpy(held)[:, None]
        self.values = torch.from_numpy(values)[:, None]
        self.solutions = torch.zeros_like(self.values)
        for first in range(0, count, CHUNK):
            chosen = slice(first, first + CHUNK)
            self.solutions[chosen] = _solved(self._problem(chosen))

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def fingerprint(self) -> str:
        """The hash of everything that was drawn."""
        digest = hashlib.sha256()
        for part in (self.inputs, self.held, self.values):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()

    def posed(self, index: Any) -> tuple[Problem, Tensor]:
        """The samples at `index` as a problem, and their solutions."""
        return self._problem(index), self.solutions[index]

    def _problem(self, index: Any) -> Problem:
        known = FixedValues(self.held[index], self.values[index])
        return Problem(self.equation, self.inputs[index], fixed=known)


def _draw(rng: np.random.Generator, resolution: int) -> tuple[Any, Any, Any]:
    """(a, f), the held points, and g."""
    held = random_shape(rng, resolution)

    def smooth() -> Any:
        return _unit(cosine_field(rng, resolution, inverse_length=rng.uniform(2, 15)))

    kind = rng.integers(3)
    if kind == 0:
        a = np.full((resolution, resolution), 6.0)
    elif kind == 1:
        a = two_phase(cosine_field(rng, resolution), 3.0, 12.0)
    else:
        a = 6.0 * np.exp(rng.uniform(0.2, 1.0) * smooth().clip(-1.7, 1.7))
    f = np.ones_like(a) if rng.random() < 0.3 else smooth()
    g = np.zeros_like(a)
    if rng.random() < 0.5:
        # beside values of size one a source of size one would not be seen
        g, f = smooth(), rng.uniform(0, 100) * f
    return np.stack([a, f]), held, np.where(held, g, 0.0)


def _unit(field: Any) -> Any:
    return field / field.std()


def _solved(problem: Problem) -> Tensor:
    guess, grid = problem.zeros(), problem.grid
    right = -grid.flatten(problem.residual(guess)).numpy()
    matrices = sparse_jacobian(problem, guess)
    change = np.stack([factorised(m)(r) for m, r in zip(matrices, right, strict=True)])
    return problem.impose(guess + grid.unflatten(torch.from_numpy(change), guess))
