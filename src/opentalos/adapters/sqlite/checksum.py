"""The checksum of a stored row: of its key, and of all of it.

SQLite has none for its pages, so a flipped bit would be read as it is. The key's own checksum
distinguishes a row whose key is wrong, which looks like another row while its own seems absent,
from a row whose content is wrong.
"""

from google_crc32c import extend, value

_KEY_BITS = 31  # so that both fit into an integer of SQLite, which has a sign
_REST_BITS = 32


def row_checksum(key: bytes, rest: bytes) -> int:
    """Of a row; ``key`` and ``rest`` say unambiguously what is in its columns."""
    of_key: int = value(key)
    of_all: int = extend(of_key, rest)
    return (of_key & (1 << _KEY_BITS) - 1) << _REST_BITS | of_all


def key_is_sound(checksum: object, key: bytes) -> bool:
    """Whether the row of that checksum has this key."""
    of_key: int = value(key)
    return isinstance(checksum, int) and checksum >> _REST_BITS == of_key & (1 << _KEY_BITS) - 1
