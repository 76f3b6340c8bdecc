"""The FNO of the neuraloperator package as a row of our tables, of the size of our own FNO.

    pip install neuraloperator
    python -m paper --plugin examples/neuraloperator_fno.py evaluate helmholtz --method neuralop-fno

trains it for the 10 CPU minutes that every learned row has, and measures it as every other row.
"""

from functools import partial

from neuralop.models import FNO
from torch import nn

import neuralsolver as ns
from paper.methods import Method, register
from paper.prepare import operator

RECIPE = "backbone-only-neuralop-fno"


def network(in_channels: int, out_channels: int) -> nn.Module:
    """Ten wavenumbers of each sign, 32 channels, 4 layers: 0.9 million weights."""
    return FNO((20, 20), in_channels=in_channels, out_channels=out_channels, hidden_channels=32)


ns.register_backbone("neuralop-fno", network)
register(
    Method(
        key="neuralop-fno",
        kind="learned",
        label="FNO (neuraloperator)",
        prepare=partial(operator, RECIPE),
        recipes=(RECIPE,),
    )
)
