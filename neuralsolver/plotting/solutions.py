"""The picture of one solution: input, solution, what is left of the residual, and its history.

Fixed points inside the domain are outlined and grey: nothing is solved there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from neuralsolver.plotting.axes import RESIDUAL_COLOUR, draw, outline

if TYPE_CHECKING:
    from neuralsolver.solvers.solution import Solution


def plot_solution(solution: Solution, path: str | None, sample: int) -> Figure:
    """Draw one sample (of a flow its last frame, of a box its middle); write it where asked."""
    problem = solution.problem
    box = problem.grid.dimension == 3
    fields = [(problem.equation.input_names[0], _slice(problem.inputs[sample, 0], box))]
    residuals, names = problem.residual(solution.tensor)[sample], problem.equation.unknowns
    for name, u, r in zip(names, solution.tensor[sample], residuals, strict=True):
        titles = ("solution", "residual") if len(names) == 1 else (name, f"residual of {name}")
        fields += zip(titles, (_slice(u, box), _slice(r, box)), strict=True)
    mask = None
    if problem.fixed is not None and problem.fixed_inside:
        mask = _slice(problem.fixed.mask[sample, 0], box)
    first, second = problem.grid.lengths[-2:]
    lengths = (first, second)
    figure = Figure(figsize=(3.375 * (len(fields) + 1), 3.4), dpi=130, layout="constrained")
    axes = figure.subplots(1, len(fields) + 1)
    for axis, (title, field) in zip(axes, fields, strict=False):
        masked = field if mask is None else np.ma.masked_where(mask, field)
        image = draw(axis, masked, title, lengths=lengths)
        figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=7)
        if mask is not None:
            outline(axis, mask, lengths)
    norms = solution.residual_norms[:, sample] / solution.residual_scale[sample]
    axes[-1].semilogy(norms.cpu().numpy(), marker=".", color=RESIDUAL_COLOUR)
    axes[-1].set_title("relative residual", fontsize=9)
    axes[-1].set_xlabel("step", fontsize=8)
    axes[-1].grid(alpha=0.3)
    axes[-1].tick_params(labelsize=7)
    status = solution.status[sample]
    figure.suptitle(f"{problem.equation.name}: {status.name}, {status.value}", fontsize=10)
    if path is not None:
        figure.savefig(path)
    return figure


def _slice(field: Tensor, box: bool) -> Any:
    """A field as a picture: the middle of a box, the last frame of a flow."""
    values = field.detach().cpu().numpy()
    if values.ndim < 3:
        return values
    return values[len(values) // 2] if box else values[-1]
