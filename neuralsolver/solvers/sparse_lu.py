"""Sparse LU factorisation on a box of points, with a geometric nested-dissection order.

    P A Pᵀ = L U,      x = Pᵀ U⁻¹ L⁻¹ P b

The order P bisects the box of points along its longest axis and numbers the plane between the two
halves, the separator, last; then each half in the same way, down to boxes of `LEAF` points. A
stencil that reaches one point far couples the halves only through the separator. In two
dimensions the factors of N unknowns then have O(N log N) entries and take O(N^{3/2}) operations,
which no order of the columns beats. Several fields are interleaved: all unknowns of a point are
numbered together.

Stencil matrices are symmetric in pattern and nearly so in size, so SuperLU pivots on the diagonal
(`SymmetricMode`) unless an entry of its column is a hundred times larger. A factor is kept and
serves any number of right-hand sides, of the matrix, its transpose and its adjoint.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import structural_rank
from scipy.sparse.linalg import splu

from neuralsolver.errors import InvalidInput

LEAF = 48
"""Boxes of at most so many points are numbered row by row."""

Array = npt.NDArray[Any]


@functools.lru_cache(maxsize=32)
def nested_dissection(shape: tuple[int, ...], fields: int = 1) -> npt.NDArray[np.intp]:
    """The order in which the unknowns of a box of points are eliminated.

    Args:
        shape: Points along each axis.
        fields: Unknowns a point. Unknown f of point p has the number f · points + p.

    Returns:
        The numbers of the unknowns, first eliminated first. Do not write into it.
    """
    size = math.prod(shape)
    order = np.empty(size, dtype=np.intp)
    pending = [(np.arange(size, dtype=np.intp).reshape(shape), size)]
    while pending:
        box, end = pending.pop()
        axis = int(np.argmax(box.shape))
        middle = box.shape[axis] // 2
        if box.size <= LEAF or box.shape[axis] < 3:
            order[end - box.size : end] = box.ravel()
            continue
        lower, separator, upper = np.split(box, [middle, middle + 1], axis=axis)
        order[end - separator.size : end] = separator.ravel()
        pending.append((upper, end - separator.size))
        pending.append((lower, end - separator.size - upper.size))
    interleaved: npt.NDArray[np.intp] = (
        order[:, None] + size * np.arange(fields, dtype=np.intp)
    ).ravel()
    interleaved.flags.writeable = False
    return interleaved


class SparseLU:
    """The factors of one sparse matrix whose unknowns live on a box of points.

    >>> import numpy as np
    >>> from scipy import sparse
    >>> matrix = sparse.diags([2.0, -1.0, -1.0], [0, 1, -1], shape=(9, 9))
    >>> bool(np.allclose(matrix @ SparseLU(matrix, (9,)).solve(np.ones(9)), 1.0))
    True
    """

    def __init__(
        self,
        matrix: Any,
        shape: Sequence[int],
        *,
        fields: int = 1,
        single_precision: bool = False,
    ) -> None:
        """Factorise.

        Args:
            matrix: Sparse and square, real or complex, of order fields · points.
            shape: Points along each axis.
            fields: Unknowns a point; the unknowns of a field stand together.
            single_precision: Factorise in float32 or complex64. Takes three quarters of the time
                and half of the memory, for use as a preconditioner.

        Raises:
            InvalidInput: The matrix has another order than fields · points.
            SingularMatrix: The matrix is singular.
        """
        self.order = nested_dissection(tuple(shape), fields)
        if matrix.shape != (self.order.size, self.order.size):
            expected = f"of order {self.order.size} = {fields} fields x {tuple(shape)} points"
            raise InvalidInput("matrix", expected, matrix.shape)
        permuted = matrix.tocsc()[:, self.order][self.order]
        if not permuted.diagonal().all() and structural_rank(permuted) < self.order.size:
            raise SingularMatrix("no entries in some row or column")  # on which SuperLU crashes
        real = not np.iscomplexobj(permuted.data)
        single = np.float32 if real else np.complex64
        self.dtype = np.dtype(single if single_precision else permuted.dtype)
        try:
            self._factor = splu(
                permuted.astype(self.dtype),
                permc_spec="NATURAL",
                diag_pivot_thresh=0.01,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            raise SingularMatrix(str(error)) from error

    def solve(self, right: Array) -> Array:
        """x of A x = b.

        Args:
            right: (unknowns,) or (unknowns, right-hand sides).

        Returns:
            An array of the same shape, in double precision.
        """
        if np.iscomplexobj(right) and self.dtype.kind == "f":
            both = self.solve(np.stack([right.real, right.imag], -1).reshape(len(right), -1))
            return np.asarray(both.reshape(*right.shape, 2) @ np.array([1.0, 1.0j]))
        permuted = np.asarray(right)[self.order].astype(self.dtype, copy=False)
        answer: Array = self._factor.solve(permuted)
        result = np.empty(answer.shape, np.promote_types(answer.dtype, np.float64))
        result[self.order] = answer
        return result


class SingularMatrix(ArithmeticError):
    """A matrix that has no inverse."""
