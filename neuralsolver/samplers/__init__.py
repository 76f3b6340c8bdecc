"""From a few sensors to fields: samplers of pairs (input, solution), and the exact answer."""

from neuralsolver.samplers.diffusion_ens import DiffusionENS, ErrorConditionedDenoiser
from neuralsolver.samplers.edm import Schedule
from neuralsolver.samplers.exact import ExactPosterior, Fill
from neuralsolver.samplers.palette import Denoiser, Palette
from neuralsolver.samplers.samples import Sampler, Samples

__all__ = [
    "Denoiser",
    "DiffusionENS",
    "ErrorConditionedDenoiser",
    "ExactPosterior",
    "Fill",
    "Palette",
    "Sampler",
    "Samples",
    "Schedule",
]
