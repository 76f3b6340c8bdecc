"""`check_equation` passes what is right and names each thing that is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import neuralsolver as ns
from neuralsolver.equations import EQUATIONS
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.stencils import from_interior, interior, laplacian
from neuralsolver.reference import cosine_field


@dataclass(frozen=True)
class Right(ns.Equation):
    """Δu − s²u = f."""

    screening: float = 2.0

    @property
    def linear(self):
        return True

    @property
    def jacobian_depends_on(self):
        return ()

    def residual(self, space, u, inputs):
        return laplacian(u, space.grid) - space.zero_boundary(self.screening**2 * u + inputs)

    def sample(self, rng, resolution):
        return cosine_field(rng, resolution)[None]


@pytest.mark.parametrize("name", sorted(EQUATIONS))
def test_our_own_equations_keep_their_promises(name):
    ns.check_equation(EQUATIONS[name])
    ns.check_equation(Right())


class OnTheWalls(Right):
    def residual(self, space, u, inputs):
        return laplacian(u) - inputs


class FarReaching(Right):
    def residual(self, space, u, inputs):
        return laplacian(laplacian(u)) - from_interior(interior(inputs))


class NotFinite(Right):
    def sample(self, rng, resolution):
        return np.full((1, resolution, resolution), np.nan)


class Square(Right):
    def residual(self, space, u, inputs):
        return laplacian(u) - space.zero_boundary(inputs)


class Flat(Right):
    def sample(self, rng, resolution):
        return cosine_field(rng, resolution)


class Forgetful(Right):
    def sample(self, rng, resolution):
        return np.random.default_rng().random((1, resolution, resolution))


class Cubic(Right):
    def residual(self, space, u, inputs):
        return super().residual(space, u, inputs) + from_interior(interior(u) ** 3)


class ReadsInputs(Right):
    def residual(self, space, u, inputs):
        return laplacian(u) + from_interior(interior(u) * interior(inputs))


class ReadsSolution(Cubic):
    @property
    def linear(self):
        return False


class Averaging(Right):
    def residual(self, space, u, inputs):
        return super().residual(space, u, inputs - inputs.mean(0, keepdim=True))


class WrongShape(Right):
    def residual(self, space, u, inputs):
        return super().residual(space, u, inputs)[..., 1:-1, 1:-1]


class Detached(Right):
    def residual(self, space, u, inputs):
        return super().residual(space, u.detach(), inputs)


class Meddling(Right):
    def impose(self, u, inputs):
        return from_interior(interior(u, 2), 2)


class Infinite(Right):
    def residual(self, space, u, inputs):
        return super().residual(space, u, inputs) / 0.0


@pytest.mark.parametrize(
    ("equation", "words"),
    [
        (OnTheWalls, "not zero on the walls"),
        (FarReaching, "stencil_reach is 1, but the residual looks 2 away"),
        (NotFinite, "sample is not finite"),
        (Square, "does not change with the lengths"),
        (Flat, "sample has the shape"),
        (Forgetful, "two fields for one state"),
        (Cubic, "not affine in u"),
        (ReadsInputs, "does not name the inputs"),
        (ReadsSolution, "does not name the solution"),
        (Averaging, "depends on the others of its batch"),
        (WrongShape, "residual has the shape"),
        (Detached, "cannot be differentiated"),
        (Meddling, "impose changes points"),
        (Infinite, "not finite"),
    ],
)
def test_what_is_wrong_is_named(equation, words):
    with pytest.raises(InvalidInput, match=words):
        ns.check_equation(equation())


def test_it_wants_an_equation():
    with pytest.raises(InvalidInput, match="an Equation"):
        ns.check_equation(Right)
