"""Patterns of topic names: regular expressions that match in linear time.

Patterns come from users, so Python's backtracking ``re`` is no option: ``(a+)+b`` would stop the
server. This is the only engine for them: topic groups and ``matchTopics`` use it, and subscriptions
of Kafka clients. The characters of the pattern are states that advance together (Glushkov's
method): the cost of a match is at most the name's length times ``STATES_MAX``. The sets of states
that names led to are kept, so most characters of most names cost one look-up.

Supported, as in RE2, Java and Python: printable ASCII characters; ``.``; ``[a-z_]`` and ``[^a-z]``;
``\\d \\w \\s`` and ``\\D \\W \\S``; ``\\`` before any other sign; ``( )`` and ``(?: )``; ``|``;
``*``, ``+``, ``?`` and ``{2}``, ``{2,}``, ``{2,4}``, lazy ones too, which mean the same here;
``^`` where the name begins and ``$`` where it ends. The whole name must match. Anything else is
refused.
"""

import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from opentalos.model.errors import BadRequest

PATTERN_CHARS_MAX: Final = 256
DEPTH_MAX: Final = 16  # of parentheses
STATES_MAX: Final = (
    256  # characters and classes of a pattern, after its repetitions are written out
)
_NODES_MAX: Final = 4 * STATES_MAX  # with what groups them
_EDGES_MAX: Final = 2_000  # from one set of states to another that are kept, about 0.5 MB

_ANY: Final = frozenset(map(chr, range(0x20, 0x7F)))  # names of topics and owners have no others
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS: Final = frozenset(string.digits)
_SPACE: Final = frozenset(" \t\n\f\r")
_CLASSES: Final = {
    "d": _DIGITS, "D": _ANY - _DIGITS,
    "w": _WORD, "W": _ANY - _WORD,
    "s": _SPACE, "S": _ANY - _SPACE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Anchor:
    sign: str  # ^ or $
    position: int  # in the pattern


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: "tuple[_Node, ...]"


@dataclass(frozen=True, slots=True)
class _Choice:
    branches: "tuple[_Node, ...]"


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: "_Node"
    least: int
    most: int | None


_Node = frozenset[str] | _Anchor | _Sequence | _Choice | _Repeat


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the machine. Sets of states are the bits of integers."""

    first: int = 0
    last: int = 0
    optional: bool = True  # it matches the empty text too


@dataclass(slots=True)
class _Reached:
    """A set of states that a name's beginning leads to."""

    following: int  # the states that may come next
    accepts: bool
    then: "dict[str, _Reached]" = field(default_factory=dict)


class Pattern:
    """A compiled pattern. Raises: BadRequest: what it does not support, and where."""

    def __init__(self, text: str) -> None:
        machine = _Machine()
        whole = machine.build(_Parser(text).parse(), begins=True, ends=True)
        self._machine, self._last = machine, whole.last
        self._by_char: dict[str, int] = {}
        self._reached: dict[int, _Reached] = {}
        self._start = _Reached(whole.first, whole.optional)
        self._edges = 0
        self.work = 0  # characters and states passed since the start, for whoever pauses

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        self.work += len(name)
        reached = self._start
        for char in name:
            following = reached.then.get(char) or self._advance(reached, char)
            if not (following.following or following.accepts):
                return False
            reached = following
        return reached.accepts

    def _advance(self, reached: _Reached, char: str) -> _Reached:
        if self._edges >= _EDGES_MAX:  # bounds memory; who comes here again computes again
            self._reached.clear()
            self._start.then.clear()
            self._edges = 0
        self._edges += 1
        accepting = self._by_char.get(char)
        if accepting is None:
            accepting = self._by_char[char] = self._machine.accepting(char)
        states = reached.following & accepting
        found = self._reached.get(states)
        if found is None:
            following = 0
            for state in _bits(states):
                following |= self._machine.follow[state]
                self.work += 1
            found = self._reached[states] = _Reached(following, bool(states & self._last))
        reached.then[char] = found
        return found


def topic_pattern(text: str) -> Pattern:
    """A pattern of topic groups, where a lone ``*`` means every name. Raises: BadRequest."""
    return Pattern(".*" if text == "*" else text)


def _bits(states: int) -> Iterator[int]:
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest


class _Machine:
    """The states of a pattern: what each accepts, and which may follow it."""

    def __init__(self) -> None:
        self.follow: list[int] = []
        self._accepts: list[frozenset[str]] = []
        self._nodes = 0

    def accepting(self, char: str) -> int:
        """The states that accept a character."""
        return sum(1 << state for state, chars in enumerate(self._accepts) if char in chars)

    def build(self, node: _Node, *, begins: bool, ends: bool) -> _Piece:
        """Add a part's states.

        ``begins``: nothing of the name can come before it; ``ends``: nothing after it.
        Raises: BadRequest.
        """
        self._nodes += 1
        states = len(self._accepts) + isinstance(node, frozenset)
        if states > STATES_MAX or self._nodes > _NODES_MAX:
            raise BadRequest(
                "a topic pattern must have at most "
                f"{STATES_MAX} characters and classes after its repetitions are written out"
            )
        match node:
            case _Anchor(sign, position):
                if not (begins if sign == "^" else ends):
                    where = "begins" if sign == "^" else "ends"
                    raise _wrong(position, f"{sign} is supported only where the name {where}")
                return _Piece()
            case _Sequence(parts):
                return self._sequence(parts, begins, ends)
            case _Choice(branches):
                pieces = [self.build(branch, begins=begins, ends=ends) for branch in branches]
                first = last = 0
                for piece in pieces:
                    first, last = first | piece.first, last | piece.last
                return _Piece(first, last, any(piece.optional for piece in pieces))
            case _Repeat():
                return self._repeat(node, begins, ends)
            case chars:
                state = 1 << len(self._accepts)
                self._accepts.append(chars)
                self.follow.append(0)
                return _Piece(state, state, optional=False)

    def _sequence(self, parts: tuple[_Node, ...], begins: bool, ends: bool) -> _Piece:
        consuming = [index for index, part in enumerate(parts) if not isinstance(part, _Anchor)]
        first, last = (consuming[0], consuming[-1]) if consuming else (len(parts), -1)
        joined = _Piece()
        for index, part in enumerate(parts):
            piece = self.build(part, begins=begins and index <= first, ends=ends and index >= last)
            joined = self._join(joined, piece)
        return joined

    def _repeat(self, node: _Repeat, begins: bool, ends: bool) -> _Piece:
        once = node.most == 1
        copies = max(node.least, 1) if node.most is None else node.most
        tail = _Piece()
        # From the end, so that each optional copy contains the next: X{2,4} is XX(X(X)?)?.
        for number in range(copies, 0, -1):
            piece = self.build(node.part, begins=begins and once, ends=ends and once)
            if node.most is None and number == copies:
                self._connect(piece.last, piece.first)
            tail = self._join(piece, tail)
            if number > node.least:
                tail = _Piece(tail.first, tail.last)
        return tail

    def _join(self, left: _Piece, right: _Piece) -> _Piece:
        self._connect(left.last, right.first)
        return _Piece(
            left.first | (right.first if left.optional else 0),
            right.last | (left.last if right.optional else 0),
            left.optional and right.optional,
        )

    def _connect(self, states: int, following: int) -> None:
        if following:
            for state in _bits(states):
                self.follow[state] |= following


class _Parser:
    """Recursive descent over the pattern's text."""

    def __init__(self, text: str) -> None:
        if not 0 < len(text) <= PATTERN_CHARS_MAX:
            raise BadRequest(f"a topic pattern must have 1 to {PATTERN_CHARS_MAX} characters")
        self._text, self._position, self._depth = text, 0, 0

    def parse(self) -> _Node:
        node = self._alternatives()
        if self._peek():
            raise self._error("there is no ( for this )")
        return node

    def _alternatives(self) -> _Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._position += 1
            branches.append(self._sequence())
        return _Choice(tuple(branches)) if len(branches) > 1 else branches[0]

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self) -> _Node:
        part = self._atom()
        if not self._at_quantifier():
            return part
        if isinstance(part, _Anchor):
            raise self._error(f"{part.sign} cannot be repeated")
        least, most = self._quantifier()
        if self._peek() == "?":  # lazy: which part of the name it takes does not matter here
            self._position += 1
        if self._at_quantifier():
            raise self._error("a quantifier after another is not supported")
        return _Repeat(part, least, most)

    def _at_quantifier(self) -> bool:
        return self._peek() in ("*", "+", "?", "{")

    def _quantifier(self) -> tuple[int, int | None]:
        sign = self._take()
        if sign != "{":
            return int(sign == "+"), 1 if sign == "?" else None
        at = self._position - 1
        within, end, _ = self._text[self._position :].partition("}")
        least, comma, most = within.partition(",")
        if not (end and _is_number(least) and (_is_number(most) or not most)):
            raise _wrong(at, "write {2}, {2,} or {2,4}, or \\{ for the character")
        self._position += len(within) + 1
        highest = (int(most) if most else None) if comma else int(least)
        if highest is not None and highest < int(least):
            raise _wrong(at, "the second number must not be less than the first")
        return int(least), highest

    def _atom(self) -> _Node:
        if self._at_quantifier():
            raise self._error("there is nothing to repeat")
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return self._char_class()
        if char == ".":
            return _ANY
        if char == "\\":
            return self._escaped()
        if char in "^$":
            return _Anchor(char, self._position - 1)
        if char in "]}":
            raise _wrong(self._position - 1, f"write \\{char} for the character")
        return self._one(char)

    def _group(self) -> _Node:
        at = self._position - 1
        if self._text.startswith("?:", self._position):
            self._position += 2
        elif self._peek() == "?":
            raise self._error("of the groups with (? only (?: is supported")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadRequest(f"a topic pattern must nest at most {DEPTH_MAX} levels")
        node = self._alternatives()
        if not self._peek():
            raise _wrong(at, "the ) is missing")
        self._position += 1
        self._depth -= 1
        return node

    def _escaped(self) -> frozenset[str]:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum():
            raise _wrong(self._position - 2, f"\\{char} is not supported")
        return self._one(char)

    def _char_class(self) -> frozenset[str]:
        negated = self._peek() == "^"
        self._position += negated
        if self._peek() == "]":
            raise self._error("a class is empty, or write \\] for the character")
        chars: frozenset[str] = frozenset()
        while self._peek() != "]":
            if self._peek() == "[" or self._text.startswith("&&", self._position):
                raise self._error("classes within classes are not supported; write \\[ or \\&")
            first = self._member()
            if self._peek() != "-" or self._peek(1) in ("", "]"):
                chars |= first
                continue
            self._position += 1
            at, last = self._position, self._member()
            if len(first) > 1 or len(last) > 1 or min(first) > min(last):
                raise _wrong(at, "the range ends before it begins, or at a class")
            chars |= frozenset(char for char in _ANY if min(first) <= char <= min(last))
        self._position += 1
        return _ANY - chars if negated else chars

    def _member(self) -> frozenset[str]:
        char = self._take()
        return self._escaped() if char == "\\" else self._one(char)

    def _one(self, char: str) -> frozenset[str]:
        if char not in _ANY:
            raise _wrong(self._position - 1, "names have printable ASCII characters only")
        return frozenset(char)

    def _peek(self, ahead: int = 0) -> str:
        position = self._position + ahead
        return self._text[position : position + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._error("the pattern ends too early")
        self._position += 1
        return char

    def _error(self, why: str) -> BadRequest:
        return _wrong(self._position, why)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3


def _wrong(position: int, why: str) -> BadRequest:
    return BadRequest(f"topic pattern, character {position + 1}: {why}")
