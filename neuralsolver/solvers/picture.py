"""The picture of one solution: input, solution, what is left of the residual, and its history.

Points that are held inside are outlined; where nothing is solved input and residual are grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from neuralsolver.drawing import RESIDUAL_COLOUR, draw, shade

if TYPE_CHECKING:
    from neuralsolver.solvers.solution import Solution


def plot_solution(solution: Solution, path: str | None, sample: int) -> Figure:
    """Draw one sample (of a flow its last frame, of a box its middle); write it where asked."""
    problem = solution.problem
    u = solution.tensor[sample, 0].detach().cpu().numpy()
    r = problem.residual(solution.tensor)[sample, 0].detach().cpu().numpy()
    given = problem.inputs[sample, 0].cpu().numpy()
    if problem.grid.dimension == 3:
        u, r, given = (field[len(field) // 2] for field in (u, r, given))
    elif u.ndim == 3:
        u, r = u[-1], r[-1]
    figure = Figure(figsize=(13.5, 3.4), dpi=130, layout="constrained")
    axes = figure.subplots(1, 4)
    name = problem.equation.input_names[0]
    fields = ((name, given), ("solution", u), ("residual", r))
    for axis, (title, field) in zip(axes, fields, strict=False):
        image = draw(axis, field, title)
        figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=7)
        if problem.known is not None and problem.known_inside:
            # what is given or left where nothing is solved means nothing
            held = problem.known.mask[sample, 0].cpu().numpy()
            shade(axis, held, hide=title != "solution")
    norms = solution.residual_norms[:, sample] / solution.residual_scale[sample]
    axes[3].semilogy(norms.cpu().numpy(), marker=".", color=RESIDUAL_COLOUR)
    axes[3].set_title("relative residual", fontsize=9)
    axes[3].set_xlabel("step", fontsize=8)
    axes[3].grid(alpha=0.3)
    axes[3].tick_params(labelsize=7)
    status = solution.status[sample]
    figure.suptitle(f"{problem.equation.name}: {status.name}, {status.value}", fontsize=10)
    if path is not None:
        figure.savefig(path)
    return figure
