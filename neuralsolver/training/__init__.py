"""Training: objectives, the one loop, checkpoints, and the models at hand."""

from neuralsolver.training.checkpoint import Card, load_model, save_model
from neuralsolver.training.fit import error_history, fit
from neuralsolver.training.library import load, shipped
from neuralsolver.training.plan import Plan, Record

__all__ = [
    "Card",
    "Plan",
    "Record",
    "error_history",
    "fit",
    "load",
    "load_model",
    "save_model",
    "shipped",
]
