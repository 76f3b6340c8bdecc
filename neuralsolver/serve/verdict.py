"""What a solve has reached, in words: for people who do not read residuals."""

from __future__ import annotations

from typing import Any

from neuralsolver.serve.solve_steps import Outcome, finite

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


def verdict(outcome: Outcome) -> dict[str, Any]:
    """Headline, tone, sentences, and the numbers they are made of."""
    solution, status = outcome.solution, outcome.status
    headline, tone = HEADLINES[status]
    residual = finite(float(solution.relative_residual[0]))
    meaning = MEANINGS[status]
    steps = int(solution.steps.max())
    if status == "FINISHED" and (residual is None or residual > ROUGH):
        headline, tone, meaning = _unconvinced(residual, steps)
    bound, estimate = _error(outcome)
    if outcome.out_of_time:
        steps = max(0, len(outcome.curves["step"]) - 1)
    return {
        "status": status,
        "good": solution.good and not outcome.out_of_time,
        "headline": headline,
        "tone": tone,
        "meaning": meaning,
        "accuracy": _accuracy(bound, estimate, outcome),
        "steps": steps,
        "seconds": outcome.seconds,
        "relative_residual": residual,
        "error_bound": bound,
        "error_estimate": estimate,
        "error": outcome.error,
    }


def _unconvinced(residual: float | None, steps: int) -> tuple[str, str, str]:
    """What a number of corrections that left a large residual is worth."""
    if steps == 0:
        return "One guess", "fair", "One call of a network. Nothing corrects it."
    if residual is None or residual > USELESS:
        meaning = "The corrections made it worse: with these constants they lead away."
        return "It fails", "bad", meaning
    return "Roughly", "fair", "The corrections were made; the equation is satisfied only roughly."


def _error(outcome: Outcome) -> tuple[float | None, float | None]:
    """The proven bound and, where there is none, the estimate, for which there must be time."""
    solution = outcome.solution
    if solution.error_bound is not None:
        return finite(float(solution.error_bound[0])), None
    cheap = solution.estimate_is_cheap and not outcome.out_of_time
    estimate = solution.error_estimate if cheap else None
    return None, None if estimate is None else finite(float(estimate[0]))


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def in_words(value: float) -> str:
    """A number as in a text: 3.4·10⁻¹⁰."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(RAISED)}"


def _accuracy(bound: float | None, estimate: float | None, outcome: Outcome) -> str:
    """What is known of the error, and how it is known."""
    if bound is not None and bound < 1:
        known = f"Proven from the residual alone: the relative error is at most {in_words(bound)}."
    elif bound is not None:
        known = "The residual proves nothing about the error here: it is too large."
    elif estimate is not None:
        about = in_words(estimate)
        known = f"Estimated from the residual, not proven: a relative error of about {about}."
    else:
        known = "There is no bound on the error here."
    if not outcome.compared:
        return known
    if outcome.error is None:
        return f"{known} There is no reference solution to compare with."
    return f"{known} Compared with the reference solution it is {in_words(outcome.error)}."
