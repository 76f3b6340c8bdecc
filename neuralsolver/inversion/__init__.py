"""Fields from sensors: `invert`, classical methods, and a corrector that reads the mismatch."""

from neuralsolver.inversion.invert_field import invert
from neuralsolver.inversion.priors import Prior

__all__ = ["Prior", "invert"]
