r"""Text of messages on a terminal: control characters are shown, not obeyed.

Whoever may put a message could otherwise clear the screen of its reader, retitle the window, or
type into terminals that answer questions.
"""

import re
import sys
from typing import Final

# All control characters but tab and line break, DEL, the C1 ones, those that reorder text, and
# bytes that are not UTF-8, which a terminal may take for C1.
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]"
)
_FIRST_SURROGATE: Final = 0xDC80
_BYTE: Final = 0xFF


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def visible(data: bytes) -> bytes:
    r"""``data`` with such characters as ``\u001b``, also valid in JSON, and such bytes as
    ``\xff``."""
    text = data.decode("utf-8", "surrogateescape")
    return _OBEYED.sub(_shown, text).encode()


def _shown(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code & _BYTE:02x}" if code >= _FIRST_SURROGATE else f"\\u{code:04x}"
