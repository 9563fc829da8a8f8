"""The checksum of a record that is a JSON object: its last member, ``"crc"``.

A flipped bit in a number leaves valid JSON: another offset, another segment. Servers that do not
know the member ignore it like any other; what they write has none and is taken as it is.

Shape: bytes: [object without its last brace][,"crc":"][CRC-32C of all before it, 8 hex digits]["}]
"""

from typing import Final

from google_crc32c import value as _crc32c

CRC: Final = "crc"  # the member
_MEMBER: Final = b',"%b":"' % CRC.encode()
_END: Final = b'"}'
_DIGITS: Final = 8
CRC_BYTES: Final = len(_MEMBER) + _DIGITS + len(_END) - 1  # what it adds to a record


def with_crc(record: bytes) -> bytes:
    """A JSON object, with at least one member, and its checksum."""
    content = record[:-1]
    return b"%b%b%08x%b" % (content, _MEMBER, _crc32c(content), _END)


def checked(record: bytes) -> bytes:
    """The record, if its checksum is right or it has none. Raises: ValueError: it is wrong."""
    at = len(record) - len(_END) - _DIGITS
    if record.endswith(_END) and record.endswith(_MEMBER, 0, max(at, 0)):
        content = record[: at - len(_MEMBER)]
        if record[at : at + _DIGITS] != b"%08x" % _crc32c(content):
            raise ValueError("checksum mismatch")
    return record
