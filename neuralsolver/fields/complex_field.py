"""Complex unknowns: two real fields, read and returned as one complex array.

    z = a + ib  ↔  (a, b),      (a + ib)(c + id) ↔ (ac − bd, ad + bc)

An equation declares `unknowns = ns.complex_field("pressure")`. Its residual works on real fields
with the products below; a problem takes complex inputs and returns complex solutions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput

REAL, IMAGINARY = "_real", "_imag"


def complex_field(name: str) -> tuple[str, str]:
    """The names of the two real fields of a complex one.

    >>> import neuralsolver as ns
    >>> ns.complex_field("pressure")
    ('pressure_real', 'pressure_imag')
    """
    return name + REAL, name + IMAGINARY


def complex_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two complex fields (batch, 2, x, y), each as its real and imaginary part.

    >>> import neuralsolver as ns, torch
    >>> i = torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)
    >>> ns.complex_product(i, i).flatten().tolist()
    [-1.0, 0.0]
    """
    real = a[:, :1] * b[:, :1] - a[:, 1:] * b[:, 1:]
    return torch.cat([real, a[:, :1] * b[:, 1:] + a[:, 1:] * b[:, :1]], 1)


def logical_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names with every pair of a complex field as one."""
    return tuple(names[group[0]].removesuffix(REAL * (len(group) - 1)) for group in groups(names))


def groups(names: Sequence[str]) -> list[tuple[int, ...]]:
    """The channels of each field: one of a real field, two of a complex one."""
    found: list[tuple[int, ...]] = []
    index = 0
    while index < len(names):
        name = names[index]
        pair = complex_field(name.removesuffix(REAL)) == tuple(names[index : index + 2])
        found.append((index, index + 1) if pair else (index,))
        index += len(found[-1])
    return found


def is_complex(names: Sequence[str]) -> bool:
    """Whether all fields of these names are complex."""
    return all(len(group) == 2 for group in groups(names))


def to_complex(fields: Tensor) -> Tensor:
    """(batch, 2C, …) real, parts side by side, as (batch, C, …) complex."""
    return torch.complex(fields[:, 0::2].contiguous(), fields[:, 1::2].contiguous())


def to_real(names: Sequence[str], values: Tensor) -> Tensor:
    """Complex values (batch, logical fields, …) as the real channels of `names`.

    Args:
        names: The real fields, in the order of the channels.
        values: One complex field for each logical name; that of a real field has no imaginary part.

    Raises:
        InvalidInput: A real field has an imaginary part.
    """
    parts = []
    for number, group in enumerate(groups(names)):
        field = values[:, number]
        parts.append(field.real)
        if len(group) == 2:
            parts.append(field.imag)
        elif bool(field.imag.any()):
            raise InvalidInput(names[group[0]], "real values", f"dtype {values.dtype}")
    return torch.stack(parts, 1)
