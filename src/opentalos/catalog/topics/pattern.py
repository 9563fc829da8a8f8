"""Topic patterns: a small regular expression that matches in linear time.

Patterns come from users, so Python's backtracking ``re`` is no option: ``(a+)+b`` would stop the
server. This one is compiled to a set of states that all advance together (Thompson's method): the
cost of a match is at most the name's length times the pattern's.

Supported, as in the usual syntax: letters, digits, ``_`` and ``-``; ``.``; ``[a-z_]`` and
``[^a-z]``; ``\\d`` and ``\\w``; ``\\`` before any other sign; ``( )``; ``|``; ``*``, ``+``, ``?``.
The whole name must match. A lone ``*`` means every name. Anything else is refused.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass, field

from opentalos.model.errors import BadRequest

PATTERN_CHARS_MAX = 128
DEPTH_MAX = 16  # of parentheses
_NAME_CHARS = frozenset(string.ascii_letters + string.digits + "_-")
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS = frozenset(string.digits)
_SIGNS = frozenset("{}^$])*+?|")


@dataclass(slots=True)
class _State:
    """Consumes one character of ``accepts`` towards ``then``; without ``accepts``, none."""

    accepts: frozenset[str] | None = None
    then: list["_State"] = field(default_factory=list)


@dataclass(slots=True)
class _Piece:
    """A part of the machine: enter at ``start``, leave from ``end``, which has no way out yet."""

    start: _State
    end: _State


class Pattern:
    """A compiled topic pattern. Raises: BadRequest for what it does not support."""

    def __init__(self, text: str) -> None:
        if not 0 < len(text) <= PATTERN_CHARS_MAX:
            raise BadRequest(f"a topic pattern must have 1 to {PATTERN_CHARS_MAX} characters")
        piece = _Parser(".*" if text == "*" else text).parse()
        self._start, self._end = piece.start, piece.end

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states = _reach([self._start])
        for char in name:
            following = (
                after
                for state in states
                if state.accepts is not None and char in state.accepts
                for after in state.then
            )
            states = _reach(following)
            if not states:
                return False
        return any(state is self._end for state in states)


def _reach(states: Iterable[_State]) -> list[_State]:
    """These states and all that follow without consuming a character."""
    found: dict[int, _State] = {}
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if id(state) in found:
            continue
        found[id(state)] = state
        if state.accepts is None:
            waiting.extend(state.then)
    return list(found.values())


class _Parser:
    """Recursive descent over the pattern's text."""

    def __init__(self, text: str) -> None:
        self._text, self._position, self._depth = text, 0, 0

    def parse(self) -> _Piece:
        piece = self._alternatives()
        if self._peek():
            raise self._error()
        return piece

    def _alternatives(self) -> _Piece:
        start, end = _State(), _State()
        while True:
            branch = self._sequence()
            start.then.append(branch.start)
            branch.end.then.append(end)
            if self._peek() != "|":
                return _Piece(start, end)
            self._position += 1

    def _sequence(self) -> _Piece:
        start = end = _State()
        while self._peek() not in ("", "|", ")"):
            piece = self._repeated()
            end.then.append(piece.start)
            end = piece.end
        return _Piece(start, end)

    def _repeated(self) -> _Piece:
        piece = self._atom()
        sign = self._peek()
        if sign not in ("*", "+", "?"):
            return piece
        self._position += 1
        if self._peek() in ("*", "+", "?"):
            raise self._error()
        start, end = _State(then=[piece.start]), _State()
        piece.end.then.append(end)
        if sign != "?":
            piece.end.then.append(piece.start)
        if sign != "+":
            start.then.append(end)
        return _Piece(start, end)

    def _atom(self) -> _Piece:
        char = self._take()
        if char == "(":
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise BadRequest(f"a topic pattern must nest at most {DEPTH_MAX} levels")
            piece = self._alternatives()
            if self._take() != ")":
                raise self._error()
            self._depth -= 1
            return piece
        if char == "[":
            return _one_of(self._char_class())
        if char == ".":
            return _one_of(_NAME_CHARS)
        if char == "\\":
            return _one_of(self._escaped())
        if char in _SIGNS:
            self._position -= 1
            raise self._error()
        return _one_of(frozenset(char))

    def _escaped(self) -> frozenset[str]:
        char = self._take()
        known: dict[str, frozenset[str]] = {"d": _DIGITS, "w": _WORD}
        if char in known:
            return known[char]
        if char.isalnum():
            raise self._error()
        return frozenset(char)

    def _char_class(self) -> frozenset[str]:
        negated = self._peek() == "^"
        self._position += negated
        chars: set[str] = set()
        while self._peek() != "]":
            first = self._take()
            if first == "\\":
                chars |= self._escaped()
            elif self._peek() == "-" and self._peek(1) not in ("", "]"):
                self._position += 1
                last = self._take()
                chars |= {char for char in _NAME_CHARS if first <= char <= last}
            else:
                chars.add(first)
        self._position += 1
        return _NAME_CHARS - chars if negated else frozenset(chars)

    def _peek(self, ahead: int = 0) -> str:
        position = self._position + ahead
        return self._text[position : position + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._error()
        self._position += 1
        return char

    def _error(self) -> BadRequest:
        return BadRequest(
            f"topic pattern {self._text!r} cannot be used from position {self._position}"
        )


def _one_of(chars: frozenset[str]) -> _Piece:
    end = _State()
    return _Piece(_State(chars, [end]), end)
