"""Sizes on invoices."""

from decimal import Decimal
from typing import Final

_KIB: Final = 1024
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(count: int) -> str:
    """A rounded size, shown next to the exact count."""
    if count < _KIB:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_UNITS))
    scaled = (Decimal(count) / _KIB**power).quantize(Decimal("0.1"))
    return f"{scaled:,} {_UNITS[power - 1]}"
