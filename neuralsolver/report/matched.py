"""Tables of matched backbones: one architecture alone, with a residual loss, fitted to each
instance, and inside ENS. What differs between their lines is not the network.
"""

from __future__ import annotations

from collections.abc import Callable

from neuralsolver.report.layout import Table
from neuralsolver.report.rows import Results
from neuralsolver.report.style import EXPERIMENTS
from neuralsolver.report.tables import (
    DYNAMIC,
    FLOW,
    FLOW_FLOOR,
    STATIC,
    Forward,
    Names,
    against_paper,
)


def matched_backbone(results: Results) -> Table:
    """Plain operators with the backbone of ENS: what the iteration adds to the architecture."""
    names = {
        "ens": "ENS",
        "operator": "CNN-FNO-CNN",
        "operator-pino": "CNN-FNO-CNN(PINO)",
        "operator-ttop": "CNN-FNO-CNN(TTOP)",
    }
    caption = "Helmholtz, every method with the same backbone (the paper's tab:HZ_AB)."
    spec = Forward("helmholtz", "HZ_AB", STATIC[0].regimes)
    return against_paper(
        results,
        spec,
        name="matched-backbone",
        caption=caption,
        learned=[names],
        unlearned=("truth",),
    )


FLOW_MATCHED: tuple[Names, ...] = (
    {
        "ens": "ENS",
        "ens-contractive": "",
        "ens-accelerated": "",
        "operator": "VideoPDE",
        "operator-pino": "VideoPDE(PINO)",
        "operator-ttop": "VideoPDE(TTOP)",
    },
    {"ens-contractive-cnn": "", "operator-cnn": ""},
)
"""The methods on each backbone; the paper calls its transformer VideoPDE."""
MATCHED_FLOWS = tuple(
    Forward(spec.experiment, label, FLOW)
    for spec, label in zip(DYNAMIC, ("NS_AB", "KF_AB"), strict=True)
)


def matched_flow(spec: Forward) -> Callable[[Results], Table | None]:
    """The maker of the table of one flow: each backbone alone and inside ENS, a block each."""

    def make(results: Results) -> Table | None:
        if spec.experiment not in results.experiments:
            return None
        return against_paper(
            results,
            spec,
            name=f"matched-backbone-{spec.experiment}",
            caption=f"{EXPERIMENTS[spec.experiment]}, methods with the same backbone (the paper's "
            f"tab:{spec.label}): first the transformer, then CNN-FNO-CNN, marked each by itself. "
            f"{FLOW_FLOOR}",
            learned=FLOW_MATCHED,
            unlearned=("truth", "still"),
        )

    return make
