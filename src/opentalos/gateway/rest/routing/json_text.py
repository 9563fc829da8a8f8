"""JSON texts of any size, parsed in pieces between which the event loop does other work.

Python's decoder parses a text in one call: 4 MB of numbers take 0.3 s, and nothing else runs
meanwhile. Here it gets windows of a few KB; what does not fit into one is taken apart first. The
REST gateway and readers of messages use it for texts that are not short.

What is sent to REST is decoded without loss: numbers that a double cannot hold keep their text, and
an object that has a field twice is refused. A stored message is what its writer made of it.
"""

import json
import re
from collections.abc import Generator, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, cast

from opentalos.model.checks import ExactNumber, json_number, unique_fields
from opentalos.model.errors import BadRequest

WINDOW_CHARS: Final = 4 << 10  # given to the decoder at once; at most 0.3 ms
PIECE_COST: Final = 16 << 10  # characters and steps between two pauses; about 1 ms
DEPTH_MAX: Final = 900  # nested containers, as many as Python's decoder reads
_STEP_COST: Final = 32  # of a value, in characters
_CHECK_COST: Final = 16  # of an object or a number that is no integer: Python code checks it
_RUN_CHARS_MIN: Final = 256  # shorter runs of items are not worth a call
_RUN_PAUSE_MAX: Final = 64  # items parsed one by one after runs that could not be parsed at once
_RUN_ITEMS: Final = 128  # written in one call
_APART: Final = frozenset((list, dict, ExactNumber))  # written one by one
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")


def decoded(text: bytes, *, keep: bool = True) -> Any:
    """A JSON text, at once. Raises: BadRequest: also for text that cannot be encoded as UTF-8.

    Args: keep: false: only check the text; fields may be given twice.
    """
    try:
        document = json.loads(
            text.decode(json.detect_encoding(text)),
            parse_constant=_reject_constant,
            parse_float=json_number,
            object_pairs_hook=unique_fields if keep else None,
        )
        if b"\\u" in text:  # rejects half of a surrogate pair
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error
    return document


def parse(text: bytes, *, keep: bool = True) -> Generator[None, None, Any]:
    """Like ``decoded``, but yields after each piece; the generator's value is the document.

    Args: keep: false: only check the text, which takes no memory for its values; fields may be
    given twice.
    """
    try:
        whole = text.decode(json.detect_encoding(text))
        yield
        return (yield from _Parser(whole, keep=keep).run())
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error


def encoded(value: Any) -> Iterator[bytes]:
    """The shortest JSON text of a value, in pieces."""
    parts: list[str] = []
    cost = 0
    for token in _tokens(value):
        parts.append(token)
        cost += len(token) + _STEP_COST + _CHECK_COST * token.count(".")
        if cost > PIECE_COST:
            yield "".join(parts).encode()
            parts.clear()
            cost = 0
    yield "".join(parts).encode()


_SHORTEST: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class _Run(str):
    """The text of several items."""

    __slots__ = ()


def _tokens(value: Any) -> Iterator[str]:
    """A loop with a stack: Python's own iterator takes a step per level for each token."""
    stack: list[tuple[Iterator[Any], str]] = [(iter((value,)), "")]
    comma = ""
    while stack:
        for found in stack[-1][0]:
            item, text = found, comma
            if isinstance(item, tuple):  # a field, which JSON values are not
                text += _SHORTEST.encode(item[0]) + ":"
                item = item[1]
            if isinstance(item, list) and item:
                stack.append((_items(item), "]"))
                yield text + "["
                comma = ""
                break
            if isinstance(item, dict) and item:
                stack.append((iter(item.items()), "}"))
                yield text + "{"
                comma = ""
                break
            yield text + _scalar(item)
            comma = ","
        else:
            yield stack.pop()[1]
            comma = ","


def _scalar(item: Any) -> str:
    if isinstance(item, _Run):
        return item
    return item.text if isinstance(item, ExactNumber) else _SHORTEST.encode(item)


def _items(items: list[Any]) -> Iterator[Any]:
    for start in range(0, len(items), _RUN_ITEMS):
        part = items[start : start + _RUN_ITEMS]
        if _APART.isdisjoint(map(type, part)):
            yield _Run(_SHORTEST.encode(part)[1:-1])
        else:
            yield from part


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _scanner(**hooks: Any) -> Any:
    decoder: Any = json.JSONDecoder(
        parse_float=json_number, parse_constant=_reject_constant, **hooks
    )
    return decoder.scan_once


_scan_unique: Final = _scanner(object_pairs_hook=unique_fields)
_scan_any: Final = _scanner()


class _Parser:
    """One text. ``_stack`` has the open containers, ``_keys`` the open field of each object."""

    def __init__(self, text: str, *, keep: bool) -> None:
        self._text, self._at, self._keep = text, 0, keep
        self._scan = _scan_unique if keep else _scan_any
        self._stack: list[list[Any] | dict[str, Any]] = []
        self._keys: list[str] = []
        self._pairs = _HALF_PAIR.search(text) is not None
        self._cost = 0
        self._run_pause = self._run_wait = 0

    def run(self) -> Generator[None, None, Any]:
        self._skip()
        while True:
            if self._cost > PIECE_COST:
                self._cost = 0
                yield
            if self._stack and isinstance(self._stack[-1], list):
                self._run_of_items(self._stack[-1])
            found, value = self._value()
            if not found:
                continue  # a container was opened
            while True:
                if not self._stack:
                    self._skip()
                    if self._at != len(self._text):
                        raise self._error("Extra data")
                    return value
                if not self._add(value):
                    break  # the next item or field follows
                value = self._close()

    def _value(self) -> tuple[bool, Any]:
        """A whole value, or False if only its container was opened."""
        text, start = self._text, self._at
        first = text[start : start + 1]
        if first == '"':
            return True, self._string()
        if first == "" or first not in "[{":
            try:
                value, self._at = self._scan(text, start)
            except StopIteration:
                raise self._error("Expecting value") from None
            self._spend(self._at - start)
            return True, value
        try:
            value, size = self._scan(text[start : start + WINDOW_CHARS], 0)
        except (StopIteration, ValueError, RecursionError):
            self._spend(WINDOW_CHARS)
            return self._open(first)
        self._at += size
        self._spend_text(start, self._at)
        self._check(value)
        return True, value

    def _open(self, first: str) -> tuple[bool, Any]:
        if len(self._stack) >= DEPTH_MAX:
            raise self._error(f"Nested deeper than {DEPTH_MAX} levels")
        self._stack.append([] if first == "[" else {})
        self._run_pause = self._run_wait = 0
        self._at += 1
        self._skip()
        if self._text[self._at : self._at + 1] == ("]" if first == "[" else "}"):
            return True, self._close()
        if first == "{":
            self._key()
        return False, None

    def _run_of_items(self, items: list[Any]) -> None:
        """Parse many items of an array in one call, if the window's last comma is between two."""
        if self._run_wait:
            self._run_wait -= 1
            return
        start = self._at
        end = self._text.rfind(",", start, start + WINDOW_CHARS)
        if end - start < _RUN_CHARS_MIN:
            return
        run = f"[{self._text[start:end]}]"
        self._spend_text(start, end)
        try:
            found, size = self._scan(run, 0)
        except (StopIteration, ValueError, RecursionError):
            size = 0
        if size != len(run) or not found:
            self._run_pause = min(_RUN_PAUSE_MAX, 2 * self._run_pause + 1)
            self._run_wait = self._run_pause
            return
        self._run_pause = 0
        self._check(found)
        if self._keep:
            items += found
        self._at = end + 1
        self._skip()

    def _add(self, value: Any) -> bool:
        """Put a value into its container; True if the container ends there."""
        top = self._stack[-1]
        if isinstance(top, dict):
            key = self._keys.pop()
            if self._keep:
                if key in top:
                    unique_fields([(key, None), (key, None)])
                top[key] = value
        elif self._keep:
            top.append(value)
        self._skip()
        found = self._text[self._at : self._at + 1]
        if found == ("]" if isinstance(top, list) else "}"):
            return True
        if found != ",":
            raise self._error("Expecting ',' delimiter")
        self._at += 1
        self._skip()
        if isinstance(top, dict):
            self._key()
        return False

    def _close(self) -> Any:
        self._at += 1
        self._run_pause = self._run_wait = 0
        return self._stack.pop()

    def _key(self) -> None:
        if self._text[self._at : self._at + 1] != '"':
            raise self._error("Expecting property name enclosed in double quotes")
        self._keys.append(self._string())
        self._skip()
        if self._text[self._at : self._at + 1] != ":":
            raise self._error("Expecting ':' delimiter")
        self._at += 1
        self._skip()

    def _string(self) -> str:
        start = self._at
        value, self._at = scanstring(self._text, start + 1, True)
        self._spend(self._at - start)
        self._check(value)
        return cast(str, value)

    def _check(self, value: Any) -> None:
        if self._pairs:
            json.dumps(value, ensure_ascii=False).encode()  # rejects half of a surrogate pair

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None, "it matches nothing as well"
        self._spend(match.end() - self._at)
        self._at = match.end()

    def _spend(self, count: int) -> None:
        self._cost += count + _STEP_COST

    def _spend_text(self, start: int, end: int) -> None:
        checked = sum(self._text.count(mark, start, end) for mark in ".e{")
        self._spend(end - start + _CHECK_COST * checked)

    def _error(self, text: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(text, self._text, self._at)
