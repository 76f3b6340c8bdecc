"""Incompressible flow on the unit torus, in vorticity form.

    ∂ₜw + v·∇w = νΔw + f,   v = (∂₂ψ, −∂₁ψ),   −Δψ = w                           (Sec. C.1.4)

    diagonal      f = A (sin 2πm(r₁+r₂) + cos 2πm(r₁+r₂))        Navier-Stokes: A = 0.1, m = 1
    kolmogorov    f = −A cos 2πm r₂                              Kolmogorov:    A = 4,   m = 4

The solution is a whole trajectory w(t₀ + jδ), j = 0 … frames; the input is its frame 0, drawn from
a Gaussian field at t = 0 and carried to `start_time` by the reference solver. A mean vorticity has
no periodic velocity: ψ̂(0) = 0, so it stays as it is and moves nothing.

The residual is spectral in space and a difference in time, so a true trajectory leaves a floor:

    time_order 2    central, one-sided at the two ends: δ², and δ at the ends (the paper's)
    time_order 4    five points, one-sided in the two frames at each end: δ⁴ everywhere

In space, v·∇w is a product of fields on the grid (the paper's, "none") or free of aliasing: by the
"3/2" rule it has every mode of the grid, by the "2/3" rule those up to n/3, from those of w. The
latter is what the reference solver integrates on the same grid. docs/flows.md has the floors.

By the "2/3" rule no product reaches the modes beyond n/3. They only decay, which is a solution in
closed form, and so they are imposed like the initial frame.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, constant
from neuralsolver.equations.flow_integration import Tangent, integrate_flow
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.fourier import advection, symbols, vorticity_derivatives
from neuralsolver.fields.space import Space
from neuralsolver.limits import Choice, Float, Int
from neuralsolver.reference.random_fields import periodic_field

CENTRAL = (1, -8, 0, 8, -1)
ONE_SIDED = ((-25, 48, -36, 16, -3), (-3, -10, 18, -6, 1))
"""12 δ ∂ₜ by five frames, in the third, and in the first and second of them: each is exact for
1, t, … t⁴, which are five equations for five weights."""


@dataclass(frozen=True)
class NavierStokes(Equation):
    """∂ₜw + v·∇w − νΔw − f on a trajectory of `frames` steps of `frame_spacing`.

    >>> import neuralsolver as ns
    >>> flow = ns.NavierStokes(frames=4)
    >>> flow.solution_shape(32)
    (1, 5, 32, 32)
    """

    viscosity: float = constant(1e-4, Float(above=0.0, most=1e3))
    forcing: str = constant("diagonal", Choice(("diagonal", "kolmogorov")))
    forcing_amplitude: float = constant(0.1, Float(-1e6, 1e6))
    forcing_wavenumber: int = constant(1, Int(1, 100_000))
    # beyond these an integration takes hours
    start_time: float = constant(2.0, Float(0.0, 200.0))
    frame_spacing: float = constant(0.2, Float(above=0.0, most=20.0))
    frames: int = constant(20, Int(1, 10_000))
    time_order: int = constant(2, Int(2, 4))
    dealiasing: str = constant("none", Choice(("none", "3/2", "2/3")))

    input_names: ClassVar[tuple[str, ...]] = ("initial vorticity",)
    unknowns: ClassVar[tuple[str, ...]] = ("vorticity",)
    jacobian_depends_on: ClassVar[tuple[str, ...]] = ("solution",)
    boundary: ClassVar[str] = "periodic"
    precision: ClassVar[torch.dtype] = torch.float32
    residual_vanishes: ClassVar[bool] = False
    numerics: ClassVar[tuple[str, ...]] = ("time_order", "dealiasing")
    minimum_resolution: ClassVar[int] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_order == 3:
            raise InvalidInput("time_order", "2 or 4", self.time_order)
        if self.frames < self.time_order:
            least = f"at least {self.time_order} for differences of order {self.time_order}"
            raise InvalidInput("frames", least, self.frames)

    @property
    def name(self) -> str:
        return "kolmogorov" if self.forcing == "kolmogorov" else "navier-stokes"

    def constants(self) -> dict[str, Any]:
        # how the residual is taken is named only where it is not the paper's way
        values = super().constants()
        usual = {"time_order": 2, "dealiasing": "none"}
        return {name: value for name, value in values.items() if usual.get(name) != value}

    @property
    def frame_times(self) -> Array:
        """The times of the recorded frames, the initial one first."""
        return np.asarray(self.start_time + self.frame_spacing * np.arange(self.frames + 1))

    def forcing_field(self, like: Tensor) -> Tensor:
        """f on the grid of `like` (..., n, n)."""
        n = like.shape[-1]
        r = torch.arange(n, dtype=torch.float64) / n
        wave = 2 * math.pi * self.forcing_wavenumber
        if self.forcing == "diagonal":
            phase = wave * (r[:, None] + r[None, :])
            field = self.forcing_amplitude * (torch.sin(phase) + torch.cos(phase))
        else:
            field = -self.forcing_amplitude * torch.cos(wave * r[None, :]).expand(n, n)
        return field.to(like)

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        change = time_derivative(u, self.frame_spacing, self.time_order)
        if self.dealiasing != "none":
            return change + self._clean_transport(u)
        v1, v2, w1, w2, diffusion = vorticity_derivatives(u)
        product = v1 * w1 + v2 * w2
        return change + product - self.viscosity * diffusion - self.forcing_field(u)

    def _clean_transport(self, u: Tensor) -> Tensor:
        """v·∇w − νΔw − f without aliasing, put together mode by mode."""
        n = u.shape[-1]
        # the grid of the 3/2 rule is the next even one: 3n/2 itself may be odd
        cuts = ((n - 1) // 3, n) if self.dealiasing == "2/3" else (n // 2 - 1, 2 * -(-3 * n // 4))
        spectrum = torch.fft.rfft2(u, norm="forward")
        square = symbols(n, u.dtype, u.device)[2]
        forcing = torch.fft.rfft2(self.forcing_field(u), norm="forward")
        modes = advection(spectrum, *cuts) + self.viscosity * square * spectrum - forcing
        transport: Tensor = torch.fft.irfft2(modes, s=(n, n), norm="forward")
        return transport

    def impose(self, u: Tensor, inputs: Tensor) -> Tensor:
        if self.dealiasing == "2/3":
            u = self._with_free_modes(u, inputs)
        return with_initial_frame(u, inputs)

    def _with_free_modes(self, u: Tensor, inputs: Tensor) -> Tensor:
        """u with the modes beyond n/3 that follow from the initial frame and the forcing alone."""
        n, frames = u.shape[-1], u.shape[-3]
        kept, decay, forced = _free_modes(self, n, frames, u.dtype, u.device)
        initial = torch.fft.rfft2(inputs)[..., None, :, :]
        modes = torch.fft.rfft2(u).mul_(kept).add_(forced).addcmul_(decay, initial)
        field: Tensor = torch.fft.irfft2(modes, s=(n, n))
        return field

    def first_guess(self, inputs: Tensor) -> Tensor:
        """The initial frame, repeated: nearer than zero, and without its jump after frame 0."""
        return inputs[:, :, None].repeat(1, 1, self.frames + 1, 1, 1)

    def invert_linear_part(self, residual: Tensor) -> Tensor:
        """The change e, zero in frame 0, whose ∂ₜe − νΔe is as near as possible to the residual.

        Differences in time that see the initial frame are one equation more than there are
        unknown frames, so this is the least-squares answer, mode by mode.
        """
        n, frames = residual.shape[-1], residual.shape[-3]
        half = n // 2 + 1
        constants = (n, frames, self.frame_spacing, self.viscosity, self.time_order)
        table = _inverses(*constants, residual.dtype, residual.device)
        spectrum = torch.fft.rfft2(residual)
        # k₁ and −k₁ share a table
        both = torch.stack((spectrum[..., :half, :], spectrum[..., -torch.arange(half), :]))
        # rows of frames, for the real and the imaginary part of each sample, mode by mode; rows
        # times a table are three times as fast as a table times few columns
        rows = torch.view_as_real(both.flatten(0, 2)).permute(2, 3, 0, 4, 1)
        answer = rows.reshape(half * half, -1, frames) @ table
        found = answer.view(half, half, -1, 2, frames).permute(2, 4, 0, 1, 3).contiguous()
        upper, lower = torch.view_as_complex(found).view(both.shape)
        modes = torch.cat((upper, lower[..., 1 : n - half + 1, :].flip(-2)), dim=-2)
        change: Tensor = torch.fft.irfft2(modes, s=(n, n))
        return change

    def invert_linearisation(self, u: Tensor) -> Tangent:
        """The linearised flow, stepped through time."""
        return Tangent(u, self.viscosity, self.frame_spacing)

    def integrate(self, inputs: Tensor) -> Tensor:
        """The frames without differences in time; each sample by itself, as fast as it is."""
        forcing, spacing = self.forcing_field(inputs), self.frame_spacing
        constants = (forcing, self.viscosity, spacing, self.frames)
        return torch.cat([integrate_flow(one[None], *constants) for one in inputs])

    def moved(self, fields: Tensor, chance: Array) -> Tensor:
        """Each sample shifted, and half of them turned by π, so that the forcing stays as it is.

        A shift is free along the forcing's lines and by whole periods across them. Kolmogorov's
        forcing is even around the origin, the diagonal one around a point on r₁ + r₂ = 1/8m.
        """
        n, diagonal = fields.shape[-1], self.forcing == "diagonal"
        period = n // math.gcd(n, self.forcing_wavenumber)
        turns = not diagonal or n % (4 * self.forcing_wavenumber) == 0
        centre = n // (4 * self.forcing_wavenumber) if diagonal else 0
        copies = []
        for field, (along, across, turn, _) in zip(fields, chance, strict=True):
            first = int(along * n)
            second = int(across * n) // period * period - (first if diagonal else 0)
            turned = turns and turn < 0.5
            if turned:  # r to −1 − r, in points
                first, second = first + 1 + centre, second + 1
            copy = field.flip(-1, -2) if turned else field
            copies.append(copy.roll((first, second), (-2, -1)))
        return torch.stack(copies)

    def check_grid(self, resolution: int) -> None:
        super().check_grid(resolution)
        if 2 * self.forcing_wavenumber >= resolution:
            least = f"less than half of the {resolution} points"
            raise InvalidInput("forcing_wavenumber", least, self.forcing_wavenumber)

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return periodic_field(rng, resolution)[None]


def with_initial_frame(u: Tensor, inputs: Tensor) -> Tensor:
    """The trajectory u (B, 1, T, n, n) with `inputs` (B, 1, n, n) as its frame 0."""
    return torch.cat([inputs[:, :, None], u[:, :, 1:]], dim=2)


@functools.lru_cache(maxsize=4)
def _free_modes(
    equation: NavierStokes, n: int, frames: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Which modes are solved for, what the others keep of the initial frame, and what they have
    gained by the forcing, frame by frame."""
    k1, k2, square = symbols(n, dtype, device)
    edge = 2 * math.pi * ((n - 1) // 3 + 0.5)
    # the square, because the Nyquist mode has no first derivative
    free = (k1.abs() > edge) | (k2 > edge) | (square > 2 * edge**2)
    elapsed = equation.frame_spacing * torch.arange(frames, dtype=dtype, device=device)
    decay = torch.exp(-equation.viscosity * square * elapsed[:, None, None])
    rate = equation.viscosity * square.clamp_min(1.0)
    forcing = equation.forcing_field(torch.empty(n, n, dtype=dtype, device=device))
    forced = (1 - decay) / rate * torch.fft.rfft2(forcing)
    return (~free).expand_as(decay) + 0j, free * decay + 0j, free * forced


@functools.lru_cache(maxsize=4)
def _inverses(
    n: int,
    frames: int,
    spacing: float,
    viscosity: float,
    order: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """(∂ₜ + ν4π²|k|²)⁺ from all frames to all frames, for each mode k₁, k₂ ≥ 0 of an n × n grid,
    transposed: it acts on rows."""
    unit = torch.eye(frames, dtype=torch.float64)
    derivative = time_derivative(unit[:, :, None], spacing, order)[..., 0]
    square = symbols(n, torch.float64, torch.device("cpu"))[2][: n // 2 + 1].flatten()
    values, place = torch.unique(square, return_inverse=True)
    operators = derivative + viscosity * values[:, None, None] * unit
    inverses = torch.linalg.pinv(operators[:, :, 1:])
    table = torch.nn.functional.pad(inverses, (0, 0, 1, 0)).mT.contiguous()[place]
    return table.to(device, dtype)


def time_derivative(w: Tensor, spacing: float, order: int = 2) -> Tensor:
    """∂ₜw along the frame axis −3, of second or fourth order inside.

    At the ends, second order becomes one-sided of first order; fourth order stays what it is.
    """
    if w.shape[-3] < order + 1:
        raise InvalidInput("frames", f"at least {order + 1} with the initial one", w.shape[-3])
    if order == 4:
        return _fourth_order(w, spacing)
    step = torch.diff(w, dim=-3) / spacing
    first, last = step[..., :1, :, :], step[..., -1:, :, :]
    return torch.cat([first, (step[..., 1:, :, :] + step[..., :-1, :, :]) / 2, last], dim=-3)


def _fourth_order(w: Tensor, spacing: float) -> Tensor:
    weights = w.new_tensor(ONE_SIDED)
    # sums and no products of matrices, which mixed precision would round
    first = (weights[..., None, None] * w[..., None, :5, :, :]).sum(-3)
    # seen backwards in time the last frames are the first ones, and ∂ₜ changes sign
    last = (-weights.flip(0, 1)[..., None, None] * w[..., None, -5:, :, :]).sum(-3)
    count = w.shape[-3] - 4
    shifted = (weight * w[..., j : j + count, :, :] for j, weight in enumerate(CENTRAL) if weight)
    middle = functools.reduce(torch.add, shifted)
    return torch.cat([first, middle, last], dim=-3) / (12 * spacing)
