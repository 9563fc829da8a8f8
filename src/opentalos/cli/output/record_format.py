r"""Messages as bytes on stdout: a format string like that of kcat, JSON lines, TSV."""

import base64
import json
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from opentalos.cli.output.formats import escaped
from opentalos.model.errors import BadRequest

if TYPE_CHECKING:
    from opentalos.sdk.core.values import Record

FORMAT_HELP: Final = """\b
Format of --output:
  %s  data                  %S  length of the data in bytes
  %k  key                   %K  length of the key in bytes; -1 if it has none
  %t  topic                 %p  partition
  %o  offset                %T  append time, Unix milliseconds
  %C  creation time         %q  sequence number
  %g  tag                   %R  length of the data as 4 bytes, big-endian
  %%  percent sign
\\n, \\r, \\t, \\0, \\\\ and \\xHH are bytes.
"""
TSV_COLUMNS: Final = ("partition", "offset", "append_ms", "key", "data")
Render = Callable[["Record"], bytes]
_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_LENGTH: Final = struct.Struct(">i")


def _bytes(value: object) -> bytes:
    return b"" if value is None else str(value).encode()


def _key_length(record: "Record") -> bytes:
    key = record.partition_key
    return b"-1" if key is None else _bytes(len(key.encode()))


_FIELDS: Final[dict[str, Render]] = {
    "s": lambda record: record.data,
    "S": lambda record: _bytes(len(record.data)),
    "k": lambda record: _bytes(record.partition_key),
    "K": _key_length,
    "t": lambda record: _bytes(record.topic),
    "p": lambda record: _bytes(record.partition),
    "o": lambda record: _bytes(record.offset),
    "T": lambda record: _bytes(record.append_ms),
    "C": lambda record: _bytes(record.create_ms),
    "q": lambda record: _bytes(record.sequence_number),
    "g": lambda record: _bytes(record.tag),
    "R": lambda record: _LENGTH.pack(len(record.data)),
}


def parse_format(template: str) -> Render:
    """Compile a format string. Raises: BadRequest: it is invalid."""
    parts: list[bytes | Render] = []
    at = 0
    for found in _TOKEN.finditer(template):
        parts.append(template[at : found.start()].encode())
        parts.append(_part(found))
        at = found.end()
    parts.append(template[at:].encode())
    return _joined([part for part in parts if part != b""])


def _part(found: "re.Match[str]") -> bytes | Render:
    field, escape = found[1], found[2]
    if field == "%":
        return b"%"
    if field:
        if field in _FIELDS:
            return _FIELDS[field]
    elif escape and escape.startswith("x") and len(escape) > 1:
        return bytes.fromhex(escape[1:])
    elif escape in _ESCAPES:
        return _ESCAPES[escape]
    raise BadRequest(f"unknown format {found[0]!r}; talos consume --help lists all")


def _joined(parts: list[bytes | Render]) -> Render:
    def render(record: "Record") -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return render


def render_json(record: "Record") -> bytes:
    """One line: a JSON object as in REST, with ``text``, or ``base64`` if the data is not UTF-8.

    ``talos produce --format json`` accepts it.
    """
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "append_ms": record.append_ms,
    }
    optional = {
        "key": record.partition_key,
        "sequence_number": record.sequence_number,
        "create_ms": record.create_ms,
        "type": record.message_type,
        "schema_fingerprint": record.schema_fingerprint,
        "tag": record.tag,
    }
    document |= {name: value for name, value in optional.items() if value is not None}
    try:
        document["text"] = record.data.decode()
    except UnicodeDecodeError:
        document["base64"] = base64.b64encode(record.data).decode()
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def render_tsv(record: "Record") -> bytes:
    r"""One line of ``TSV_COLUMNS``; bytes that are not UTF-8 become ``\xHH``."""
    # Backslashes are escaped first, which keeps them distinct from those of ``\xHH``.
    data = escaped(record.data.decode("utf-8", "surrogateescape"))
    fields = (record.partition, record.offset, record.append_ms, escaped(record.partition_key))
    line = "\t".join([*map(str, fields), data]) + "\n"
    return _SURROGATE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", line).encode()


_SURROGATE: Final = re.compile("[\udc80-\udcff]")
