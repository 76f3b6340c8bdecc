"""Problems on random shapes, with their solutions."""

from __future__ import annotations

import torch

from neuralsolver.data.shapes import ShapedExamples


def test_solutions_solve_and_samples_stand_alone():
    examples = ShapedExamples(6, 24, seed=3)
    problem, solution = examples.posed(slice(None))
    size = problem.residual(problem.zeros()).abs().amax()
    assert float(problem.residual(solution).abs().amax()) < 1e-9 * float(size)
    assert problem.fixed is not None
    assert torch.equal(solution[problem.fixed.mask], problem.fixed.values[problem.fixed.mask])
    alone = ShapedExamples(3, 24, seed=3)
    assert torch.equal(alone.solutions, examples.solutions[:3])
    assert alone.fingerprint != examples.fingerprint == ShapedExamples(6, 24, seed=3).fingerprint
    # some hold values, some hold zero
    held = [bool(values.any()) for values in problem.fixed.values]
    assert 0 < sum(held) < len(held)
