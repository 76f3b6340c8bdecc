"""Matrix products whose bits do not depend on the number of BLAS threads.

A threaded BLAS cuts a product where its threads meet, and the cut shows in the last bit; it also
waits for its threads, which on a busy machine costs a hundred times the product. OpenBLAS runs
products of at most 2¹⁸ multiplications on the calling thread, so larger ones are cut here, always
at the same places. At the sizes of the sine transform this costs 15 %.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.floating]

SERIAL_LIMIT = 2**18


def matmul(left: Real, right: Real, out: Real) -> Real:
    """left @ right into `out`."""
    rows, inner = left.shape
    columns = right.shape[1]
    if rows <= columns:
        width = _width(columns, rows * inner)
        for i in range(0, columns, width):
            np.matmul(left, right[:, i : i + width], out=out[:, i : i + width])
    else:
        width = _width(rows, columns * inner)
        for i in range(0, rows, width):
            np.matmul(left[i : i + width], right, out=out[i : i + width])
    return out


def dot(x: Real, y: Real) -> float:
    """Σ xy over all entries, by einsum for the same reason."""
    return float(np.einsum("i,i->", x.ravel(), y.ravel()))


def norm(x: Real) -> float:
    """(Σ x²)^½ over all entries."""
    return float(np.sqrt(dot(x, x)))


def _width(length: int, cost: int) -> int:
    """The width of equal pieces of `length`, each of at most SERIAL_LIMIT multiplications."""
    widest = max(1, SERIAL_LIMIT // max(1, cost))
    pieces = -(-length // widest)
    return -(-length // pieces)
