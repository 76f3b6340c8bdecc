"""What a solve has reached, in words: for people who do not read residuals."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from neuralsolver.serve.solve_steps import MeasuredSolve, finite
from neuralsolver.solvers import Solution

HEADLINES = {
    "TOLERANCE": ("Solved", "good"),
    "FINISHED": ("Done", "good"),
    "PLATEAU": ("As good as it gets", "good"),
    "STALLED": ("It did not move", "bad"),
    "AT_ROUNDING": ("As far as rounding allows", "fair"),
    "OUT_OF_RANGE": ("Beyond floating-point numbers", "bad"),
    "STEP_LIMIT": ("Not there yet", "fair"),
    "TIME_LIMIT": ("Out of time", "fair"),
    "DIVERGED": ("It failed, and says so", "bad"),
    "OUT_OF_MEMORY": ("Too large", "bad"),
}
"""What a status is called, and its tone."""
MEANINGS = {
    "TOLERANCE": "The equation is satisfied to the accuracy you asked for.",
    "FINISHED": "It made the corrections you asked for.",
    "PLATEAU": "More corrections do not bring the residual further down.",
    "STALLED": "The residual stopped improving far above the tolerance: these constants are beyond "
    "the network.",
    "AT_ROUNDING": "No field of these floating-point numbers has a much smaller residual: the "
    "tolerance asks for more.",
    "OUT_OF_RANGE": "The answer or its residual is too large or too small for floating-point "
    "numbers.",
    "STEP_LIMIT": "It ran out of steps before the accuracy you asked for was reached.",
    "TIME_LIMIT": "The time of one solve was up; this is the best it had by then.",
    "DIVERGED": "The corrections made it worse. The residual shows that, so you are not fooled: "
    "this is the best iterate before it left. Try the accelerated mode, or constants nearer to "
    "those of the training.",
    "OUT_OF_MEMORY": "The problem did not fit in memory.",
}

ROUGH, USELESS = 1e-2, 1.0
"""Relative residuals above which a number of corrections has led nearby, or nowhere."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Verdict(BaseModel):
    """How a solve ended and what is known of its answer."""

    status: Annotated[str, Field(description="TOLERANCE, FINISHED, PLATEAU, DIVERGED …")]
    good: Annotated[bool, Field(description="Whether what was asked for was reached.")]
    headline: str
    tone: str
    meaning: str
    accuracy: Annotated[str, Field(description="What is known of the error, in words.")]
    steps: int
    seconds: float
    relative_residual: float | None
    error_bound: Annotated[float | None, Field(description="Proven, where the equation allows.")]
    error_estimate: Annotated[float | None, Field(description="Where there is no bound.")]
    error: Annotated[float | None, Field(description="Only on the stream.")]


def verdict(solve: MeasuredSolve) -> Verdict:
    """Headline, tone, sentences, and the numbers they are made of, of a solve that has ended."""
    solution = solve.solution
    assert solution is not None
    status = "TIME_LIMIT" if solve.out_of_time else solution.status[0].name
    steps = int(solution.steps.max())
    headline, tone = HEADLINES[status]
    meaning = MEANINGS[status]
    residual = finite(float(solution.relative_residual[0]))
    if status == "FINISHED" and (residual is None or residual > ROUGH):
        headline, tone, meaning = _unconvinced(residual, steps)
    bound, estimate = _known(solution, solve.out_of_time)
    error = solve.error(solution.tensor)
    return Verdict(
        status=status,
        good=solution.good and not solve.out_of_time,
        headline=headline,
        tone=tone,
        meaning=meaning,
        accuracy=_accuracy(bound, estimate) + _comparison(error, solve.references is not None),
        steps=max(0, len(solve.curves["step"]) - 1) if solve.out_of_time else steps,
        seconds=solve.seconds,
        relative_residual=residual,
        error_bound=bound,
        error_estimate=estimate,
        error=error,
    )


def _unconvinced(residual: float | None, steps: int) -> tuple[str, str, str]:
    """What a number of corrections that left a large residual is worth."""
    if steps == 0:
        return "One guess", "fair", "One call of a network. Nothing corrects it."
    if residual is None or residual > USELESS:
        meaning = "The corrections made it worse: with these constants they lead away."
        return "It fails", "bad", meaning
    return "Roughly", "fair", "The corrections were made; the equation is satisfied only roughly."


def _known(solution: Solution, out_of_time: bool) -> tuple[float | None, float | None]:
    """The proven bound and, where there is none, the estimate, for which there must be time."""
    if solution.error_bound is not None:
        return finite(float(solution.error_bound[0])), None
    cheap = solution.estimate_is_cheap and not out_of_time
    estimate = solution.error_estimate if cheap else None
    return None, None if estimate is None else finite(float(estimate[0]))


def in_words(value: float) -> str:
    """A number as in a text: 3.4·10⁻¹⁰."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(RAISED)}"


def _accuracy(bound: float | None, estimate: float | None) -> str:
    """What is known of the error, and how it is known."""
    if bound is not None and bound < 1:
        return f"Proven from the residual alone: the relative error is at most {in_words(bound)}."
    if bound is not None:
        return "The residual proves nothing about the error here: it is too large."
    if estimate is not None:
        about = in_words(estimate)
        return f"Estimated from the residual, not proven: a relative error of about {about}."
    return "There is no bound on the error here."


def _comparison(error: float | None, compared: bool) -> str:
    if not compared:
        return ""
    if error is None:
        return " There is no reference solution to compare with."
    return f" Compared with the reference solution it is {in_words(error)}."
