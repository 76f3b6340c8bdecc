"""The study of the paper: regimes, methods, baselines, rows, tables and figures.

Importing it makes its samplers, networks and recipes known to the library.
"""

from paper import denoiser_training, table_recipes
from paper.baselines import named_samplers

__all__ = ["denoiser_training", "named_samplers", "table_recipes"]
