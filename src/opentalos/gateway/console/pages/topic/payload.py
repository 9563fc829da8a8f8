"""How the data of a message is shown: as JSON, as text, or in hexadecimal, with fields masked.

Masks hide the values of JSON fields by name, at every depth. They are applied to the data before
any view is made from it, so no view shows what another one hides. Other data, such as Avro and
Protobuf, has no fields that pages could distinguish: while there are masks, pages show what kind
of data it is and its size.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

VIEWS: Final = ("auto", "json", "text", "hex")
WITHHELD: Final = "withheld"
MASK: Final = "•••"
MASKS_MAX: Final = 100  # names that are masked on one page
HEX_ROW_BYTES: Final = 16
_PRINTED: Final = range(0x20, 0x7F)
_STARTS: Final = (b"{", b"[", b" ", b"\t", b"\r", b"\n")
_AVRO_FILE: Final = b"Obj\x01"
_SCHEMA_ID: Final = slice(1, 5)  # after a zero, as clients of schema registries write it
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Shown(NamedTuple):
    """A payload as a page shows it."""

    view: str  # which one was taken: json, text or hex; or WITHHELD
    text: str
    bytes_count: int  # of the data as it is stored
    hidden: int  # fields that are masked
    cut: bool  # only the start is shown


def names_of(*lists: str) -> frozenset[str]:
    """Names of fields to mask, from texts that are separated by commas."""
    names = (name.strip().casefold() for text in lists for name in text.split(","))
    return frozenset(list(filter(None, names))[:MASKS_MAX])


def shown(
    data: bytes, view: str, masked: frozenset[str], bytes_max: int, *, named: bool = False
) -> Shown:
    """The data in a view; one that does not fit is replaced by the first that does.

    ``json`` is indented; ``auto`` has each document in one line.

    Args: named: the data is the value of one field, which is not masked by its name, so it is shown
    also if it has no fields of its own.
    """
    documents, hidden = _documents(data, masked)
    size = len(data)
    if masked and data and not documents and not named:
        reason = f"{kind_of(data)}: not shown, because it cannot be masked by field"
        return Shown(WITHHELD, reason, size, 0, False)
    if hidden:
        data = b"\n".join(_dumped(document).encode() for document in documents)
    if documents and view in ("auto", "json"):
        indent = 2 if view == "json" else None
        text = "\n".join(_dumped(document, indent) for document in documents)
        return Shown("json", text[:bytes_max], size, hidden, len(text) > bytes_max)
    if view != "hex":
        readable = printable(data)
        if readable is not None:
            return Shown("text", readable[:bytes_max], size, hidden, len(readable) > bytes_max)
    rows = bytes_max // HEX_ROW_BYTES
    cut = len(data) > rows * HEX_ROW_BYTES
    text = "\n".join(hex_rows(data[: rows * HEX_ROW_BYTES]))
    return Shown("hex", text, size, hidden, cut)


def kind_of(data: bytes) -> str:
    """What data that is no JSON seems to be, in words."""
    if data.startswith(_AVRO_FILE):
        return "an Avro file"
    if printable(data) is not None:
        return "text"
    if data[0] == 0 and len(data) > _SCHEMA_ID.stop:
        return f"binary data, perhaps with schema id {int.from_bytes(data[_SCHEMA_ID], 'big')}"
    return "binary data"


def printable(data: bytes) -> str | None:
    """The text, if it is UTF-8 without control characters other than tabs and line breaks."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def hex_rows(data: bytes) -> Iterator[str]:
    """Lines of 16 bytes: position, bytes in hexadecimal, and what is printable of them."""
    for start in range(0, len(data), HEX_ROW_BYTES):
        row = data[start : start + HEX_ROW_BYTES]
        left = row[:8].hex(" ")
        right = row[8:].hex(" ")
        signs = "".join(chr(byte) if byte in _PRINTED else "." for byte in row)
        yield f"{start:08x}  {left:<23}  {right:<23}  {signs}"


def data_of(message: Mapping[str, Any]) -> bytes:
    """The data of a message that REST returned in base64."""
    return base64.b64decode(message["base64"])


def _documents(data: bytes, masked: frozenset[str]) -> tuple[Sequence[Any], int]:
    """The JSON document, or one for each line, and how many fields are masked; or none."""
    if data[:1] not in _STARTS and data[:1] and data[0] in _PRINTED:
        return (), 0  # no object, no list, in no encoding of JSON: most text ends here
    count = [0]
    parsed = partial(json.loads, object_pairs_hook=partial(_masked, masked, count))
    try:
        document = parsed(data)
        return ((document,) if isinstance(document, dict | list) else ()), count[0]
    except (ValueError, RecursionError):
        count[0] = 0
    try:
        lines = [parsed(line) for line in data.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return (), 0
    if not all(isinstance(line, dict | list) for line in lines):
        return (), 0
    return lines, count[0]


def _masked(
    masked: frozenset[str], count: list[int], pairs: Sequence[tuple[str, Any]]
) -> dict[str, Any]:
    # Called for each object, also for one that a repeated name replaces: it counts too, so the
    # data is rewritten without it.
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name.casefold() in masked:
            count[0] += 1
            found[name] = MASK
        else:
            found[name] = value
    return found


def _dumped(document: Any, indent: int | None = None) -> str:
    return json.dumps(document, ensure_ascii=False, indent=indent)
