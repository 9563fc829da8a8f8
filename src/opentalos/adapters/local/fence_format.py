"""The text of a fence: the final length of a file that was taken from its writer."""

import re
import zlib

from opentalos.model.errors import NewerFormat

FORMAT_VERSION = 1
_WORD = b"opentalos-fence"
_LINE = re.compile(rb"opentalos-fence (\d{1,9}) (\d{1,19}) ([0-9a-f]{8})\n")


def encode_fence(length: int) -> bytes:
    """The text that stores ``length``, in bytes.

    Shape: bytes: one line ``opentalos-fence VERSION LENGTH CRC``, CRC-32 in hex of what precedes.
    """
    text = b"%s %d %d" % (_WORD, FORMAT_VERSION, length)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def decode_fence(content: bytes, path: str) -> int | None:
    """The length, or None if the fence is empty or torn, so that ``recover`` has to complete it.

    Raises: NewerFormat.
    """
    match = _LINE.fullmatch(content)
    if match is None or int(match[3], 16) != zlib.crc32(content[: match.start(3) - 1]):
        return None
    if int(match[1]) > FORMAT_VERSION:
        raise NewerFormat(f"{path}: fence format {int(match[1])}, known up to {FORMAT_VERSION}")
    return int(match[2])
