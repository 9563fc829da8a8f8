"""Records as JSON with a format version and a checksum."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.wire.record_crc import checked, with_crc

T = TypeVar("T")


def encode_record(version: int, **fields: Any) -> bytes:
    """The record's value, with its checksum."""
    return with_crc(json.dumps({"version": version, **fields}, separators=(",", ":")).encode())


def decode_record(value: bytes, version: int, what: str, parse: Callable[[Any], T]) -> T:
    """``parse`` of a record of that format. ``what``: the record holds, for texts of errors.

    Raises: NewerFormat, CorruptLog.
    """
    try:
        record = json.loads(checked(value))
        if record["version"] != version:
            raise NewerFormat(
                f"record of {what} has format {record['version']}; this version supports formats "
                f"up to {version}"
            )
        return parse(record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"invalid record of {what}: {error}") from error
