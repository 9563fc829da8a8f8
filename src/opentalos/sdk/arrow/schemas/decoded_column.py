"""Decodes a column of values; what cannot be decoded is null, with a reason beside it."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from opentalos.sdk.arrow.fingerprints import parts_by_fingerprint

VALUE_BYTES_MAX: Final = 16 << 20  # of a value that is decoded, unless the caller sets another
_REASON_CHARS_MAX: Final = 200
# Of pyarrow for values that do not fit a type; the last one for numbers above 64 bits.
_MISFITS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)


class Decoder(Protocol):
    """Decodes values of one schema. ``type``: the Arrow type of what ``decode`` returns."""

    @property
    def type(self) -> Any: ...

    def decode(self, value: bytes) -> Any:
        """The value for ``pyarrow.array``. Raises: ValueError: it is not one of the schema."""
        ...


def decoded_column(decoder: Decoder, values: Any, bytes_max: int) -> tuple[Any, Any]:
    """The decoded array, and the reasons: null where a value was decoded.

    A value that is null, larger than ``bytes_max`` or not of the schema is null in the first one.
    """
    rows: list[Any] = []
    reasons: list[str | None] = []
    for scalar in values:
        row, reason = _decoded(decoder, scalar.as_py(), bytes_max)
        rows.append(row)
        reasons.append(reason)
    try:
        column = pa.array(rows, decoder.type)
    except _MISFITS:
        _remove_misfits(decoder.type, rows, reasons)
        column = pa.array(rows, decoder.type)
    return column, pa.array(reasons, pa.string())


def decoded_tables(
    table: Any, decoders: Mapping[str | None, Decoder], bytes_max: int
) -> dict[str | None, Any]:
    """The rows of each schema fingerprint: partition, offset, decoded, decode_error.

    Raises: BadRequest: a fingerprint has no decoder.
    """
    found = {}
    for name, part in parts_by_fingerprint(table, decoders):
        column, reasons = decoded_column(decoders[name], part["data"].combine_chunks(), bytes_max)
        found[name] = pa.table(
            {
                "partition": part["partition"],
                "offset": part["offset"],
                "decoded": column,
                "decode_error": reasons,
            }
        )
    return found


def _decoded(decoder: Decoder, value: bytes | None, bytes_max: int) -> tuple[Any, str | None]:
    if value is None:
        return None, "there is no value"
    if len(value) > bytes_max:
        return None, f"the value has {len(value)} bytes, at most {bytes_max} are decoded"
    try:
        return decoder.decode(value), None
    except ValueError as error:
        return None, str(error)[:_REASON_CHARS_MAX]


def _remove_misfits(kind: Any, rows: list[Any], reasons: list[str | None]) -> None:
    """Make null of each row that does not fit the type, such as a decimal of too many digits."""
    for number, row in enumerate(rows):
        try:
            pa.array([row], kind)
        except _MISFITS as error:
            rows[number] = None
            reasons[number] = f"does not fit {kind}: {error}"[:_REASON_CHARS_MAX]
