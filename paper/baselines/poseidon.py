"""POSEIDON: scOT asked for the field at a lead time.

    static        u(f)       = scOT( (f − m)/s, 1 )                  the limit of a long time
    trajectory    w(t + τ)   = w(t) + d scOT( (w(t) − m)/s, τ/T )    one call for each frame

A flow is packed like this: vorticity is the one channel that goes in, the frame at the lead time
is the one that comes out, and lead times are fractions of the whole trajectory T. (The published
network has density, two velocities and pressure, and t/20.) m, s and d are the usual mean and size
of inputs and answers, as its own data are normalised. What is learned of a flow is the change,
which is an option of the published code (`learn_residual`): an untrained network then answers with
the first guess.

Frames are reached from frame 0 directly, or with `reach` = r in hops of at most r frames:

    frame j  from frame  r ⌊(j − 1)/r⌋,         r = T direct,   r = 1 frame by frame

Training takes frames of a trajectory in pairs, each from each earlier one (poseidon_training.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import Backbone, check_positive
from paper.baselines.scot import ScOT

BROUGHT_SHARE = 0.1
"""Weights that were brought along learn at this part of the rate of new ones (5e-5 of 5e-4)."""


class Poseidon(Backbone):
    """Takes (batch, in_channels, n, n), gives (batch, out_channels, n, n), on any grid.

    With one channel out it is asked once, at time 1. With more, the channels are the frames of a
    trajectory as changes of the initial one, which is the first of them.
    `brought` says that the transformer was trained elsewhere: then it learns slowly.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        image_size: int = 128,
        patch: int = 4,
        width: int = 48,
        depths: Sequence[int] = (4, 4, 4, 4),
        heads: Sequence[int] = (3, 6, 12, 24),
        skips: Sequence[int] = (2, 2, 2, 0),
        window: int = 16,
        expansion: int = 4,
        input_mean: float = 0.0,
        input_size: float = 1.0,
        output_size: float = 1.0,
        reach: int | None = None,
        brought: bool = False,
    ) -> None:
        super().__init__()
        check_positive("out_channels", out_channels)
        if out_channels > 1 and in_channels != 1:
            raise InvalidInput("in_channels", "1, the initial frame of a trajectory", in_channels)
        if not (input_size > 0 and output_size > 0):
            got = f"{input_size} and {output_size}"
            raise InvalidInput("input_size and output_size", "positive numbers", got)
        self.frames = out_channels - 1
        self.reach = self.frames if reach is None else reach
        if self.frames:
            check_positive("reach", self.reach)
        self.input_mean, self.input_size = input_mean, input_size
        self.output_size, self.brought = output_size, brought
        names = ("image_size", "patch", "width", "depths", "heads", "skips", "window", "expansion")
        self.scot = ScOT(in_channels, 1, **{name: self.arguments[name] for name in names})

    def forward(self, x: Tensor) -> Tensor:
        if not self.frames:
            return self._asked(x, x.new_ones(len(x)))
        frames = [x]
        for frame in range(1, self.frames + 1):
            origin = self.reach * ((frame - 1) // self.reach)
            frames.append(self.after(frames[origin], x.new_full((len(x),), frame - origin)))
        return torch.cat(frames, 1) - x

    def after(self, field: Tensor, frames: Tensor) -> Tensor:
        """The field (batch, 1, n, n) a number of frames later, which each sample has of its own."""
        return field + self._asked(field, frames / self.frames)

    def _asked(self, x: Tensor, time: Tensor) -> Tensor:
        scaled = (x - self.input_mean) / self.input_size
        answer: Tensor = self.scot(scaled, time)
        return self.output_size * answer

    def rate_shares(self) -> dict[nn.Parameter, tuple[float, bool]]:
        """Of each parameter the share of the learning rate, and whether it decays.

        New weights all learn alike. Of weights brought along, the transformer learns slowly; the
        lifting and the recovery, which may be new, and the norms, which follow another clock, do
        not; norms and biases do not decay.
        """
        if not self.brought:
            return {}
        shares = {}
        for name, parameter in self.scot.named_parameters():
            norm = "norm" in name
            fresh = norm or name.startswith(("lifting", "recovery", "mixup"))
            decays = not norm and not name.endswith("bias")
            shares[parameter] = (1.0 if fresh else BROUGHT_SHARE, decays)
        return shares
