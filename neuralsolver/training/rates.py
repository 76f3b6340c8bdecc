"""Which weights learn how fast: all alike, unless a network has a reason for something else.

A network whose weights were brought along says so with `rate_shares`: for a parameter its share of
the learning rate of the plan, and whether it decays.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from neuralsolver.training.plan import Plan


def parameter_groups(solver: nn.Module, plan: Plan) -> list[dict[str, Any]]:
    """The parameters with their share of the learning rate and their decay.

    Both are those of the plan, unless a network has `rate_shares` of its own.
    """
    shares: dict[nn.Parameter, tuple[float, bool]] = {}
    for module in solver.modules():
        own: Any = getattr(module, "rate_shares", None)
        if own is not None:
            shares |= own()
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter in solver.parameters():
        if parameter.requires_grad:
            groups.setdefault(shares.get(parameter, (1.0, True)), []).append(parameter)
    return [
        {"params": chosen, "share": share, "weight_decay": plan.weight_decay if decays else 0.0}
        for (share, decays), chosen in groups.items()
    ]
