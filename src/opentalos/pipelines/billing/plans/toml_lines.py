"""Line numbers of the tables and keys of a TOML text, for error texts.

The standard library's parser reports no line numbers of what it has parsed. This module examines
only the beginnings of lines, which is enough for settings as people write them: inline tables have
a line number if each begins a line, all other values have that of their key.
"""

import re
from collections.abc import Mapping
from typing import Final

Path = tuple[str | int, ...]  # keys, and indexes of arrays of tables
_PART: Final = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_NAME: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_NAME})\s*\]\]?\s*(?:#.*)?")
_KEY: Final = re.compile(rf"\s*({_NAME})\s*=")
_ARRAY: Final = re.compile(r"[^#]*=\s*\[\s*(?:#.*)?")
_PARTS: Final = re.compile(_PART)


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, of each table and key by path, such as ``("records", "tier", 0)``."""
    found: dict[Path, int] = {}
    arrays: dict[Path, int] = {}  # path of an array of tables -> index of its last one
    table: Path = ()
    array: Path = ()  # the array that is open over several lines
    count = 0  # of the inline tables in it so far
    for number, line in enumerate(text.splitlines(), 1):
        if array and line.lstrip().startswith("{"):
            found[*array, count] = number
            count += 1
        elif header := _HEADER.fullmatch(line):
            table = _resolved(_parts(header[2]), arrays, opens=header[1] == "[[")
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            path = (*table, *_parts(key[1]))
            found.setdefault(path, number)
            array, count = (path if _ARRAY.fullmatch(line) else ()), 0
    return found


def line_at(lines: Mapping[Path, int], path: Path) -> int:
    """The line of this path, or of the nearest enclosing table or key with a known line."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PARTS.findall(name))


def _resolved(parts: tuple[str, ...], arrays: dict[Path, int], *, opens: bool) -> Path:
    """The path of a header, including the index of each array of tables in it."""
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in arrays:
            path = (*path, arrays[path])
    path = (*path, parts[-1])
    if not opens:
        return path
    arrays[path] = arrays.get(path, -1) + 1
    return (*path, arrays[path])
