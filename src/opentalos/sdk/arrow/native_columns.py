"""Arrow columns of messages as the accelerator makes them, each byte copied once.

The accelerator is optional: native/columns.c, built with a wheel of a platform or by ``make
accelerator``. message_columns.py makes the same columns without it.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from opentalos.sdk.arrow.message_columns import NotPlain

INTERFACE: Final = 1  # of the module; one that was built from other sources is not used
# In the order of message_columns, and where the module has them: by the ids of their fields.
_FIELDS: Final = (
    (2, pa.binary()),
    (0, pa.string()),
    (1, pa.string()),
    (3, pa.timestamp("us", "UTC")),
    (4, pa.int32()),
    (5, pa.string()),
    (6, pa.string()),
)


class Content(NamedTuple):
    """The messages of a block, none of its first ``skipped`` ones wanted."""

    payload: bytes | memoryview
    messages: int
    skipped: int


def load_native() -> ModuleType | None:
    """The module; None: it is not built, or from other sources."""
    try:
        import opentalos.sdk.arrow._columns as native
    except ImportError:
        return None
    return native if native.INTERFACE == INTERFACE else None


NATIVE = load_native()  # None: numpy and Arrow decode


def native_columns(blocks: Sequence[Content]) -> list[Any]:
    """As ``message_columns``. Raises: NotPlain."""
    assert NATIVE is not None
    rows = sum(block.messages - block.skipped for block in blocks)
    found = NATIVE.decode(tuple(blocks))
    if found is None:
        raise NotPlain
    try:
        return [_array(kind, rows, found[index]) for index, kind in _FIELDS]
    except pa.ArrowInvalid:  # no UTF-8
        raise NotPlain from None


def _array(kind: Any, rows: int, column: tuple[int, Any, Any, Any] | None) -> Any:
    if column is None:
        return pa.nulls(rows, kind)
    nulls, valid, ends, values = column
    buffers = [None if part is None else pa.py_buffer(part) for part in (valid, ends, values)]
    if ends is None:
        return pa.Array.from_buffers(kind, rows, [buffers[0], buffers[2]], nulls)
    array = pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)
    return array.cast(kind)  # checks that texts are UTF-8
