"""Whether Python's engine needs more than linear time for some text, by a pattern's parsed form.

The engine tries one way through a text after the other, so its work is the number of ways. The
pattern becomes an automaton whose states are its characters and classes. The ways grow with the
text exactly if some text leads from a state p back to p, from p to another state q, and from q back
to q (Weber and Seidl, On the degree of ambiguity of finite automata, 1991): each repetition of that
text is one more place to change from p to q. A search begins at each character, which is a state
that accepts everything and comes before.

Repetitions up to SMALL are written out, larger ones count as endless. Of possessive repetitions of
one character or class it is known that what follows cannot begin with it; other atomic groups count
as if they were not atomic. So what is flagged may be harmless, but not the other way round.
"""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Final

_parser: Any = importlib.import_module("re._parser")
_compiler: Any = importlib.import_module("re._compiler")
_names: Any = importlib.import_module("re._constants")

SMALL: Final = 8
WAYS_MAX: Final = 32  # at the same time, for a text of one character
_LENGTH: Final = 64  # of such a text
_LOOK_MAX: Final = 16  # characters that a look-around may look at
# Each class that patterns name has some of these, and lacks others.
_CHARS: Final = [
    *map(chr, range(256)),
    *"Āж中٣\u017f\u212a\u2028\u200e\u202a\u2066\udc80\uf8ff\uffff\U0001f600",
]
_ALL: Final = (1 << len(_CHARS)) - 1
_NEWLINE: Final = 1 << 10
_REPEATS: Final = (_names.MAX_REPEAT, _names.MIN_REPEAT, _names.POSSESSIVE_REPEAT)
_SINGLE: Final = (_names.LITERAL, _names.NOT_LITERAL, _names.ANY, _names.IN)


class Use(Enum):
    """How a pattern is applied, from harmless to dangerous."""

    ONCE = "once"  # from the beginning of a text
    TOKENS = "tokens"  # again and again, each time where it ended before
    SEARCH = "search"  # from each character


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the automaton. States are with the characters that cannot come next to them."""

    first: list[tuple[int, int]]
    last: list[tuple[int, int]]
    skips: list[int]  # one for each way to match nothing: characters that cannot come then


@dataclass(slots=True)
class _Automaton:
    accepts: list[int] = field(default_factory=list)  # characters, as bits
    edges: list[list[tuple[int, int]]] = field(default_factory=list)  # to, characters
    again: list[list[tuple[int, int]]] = field(default_factory=list)  # to the next match
    guarded: bool = False  # it has conditions that a match may fail at
    lazy: bool = False  # it does not always take what it can

    def state(self, chars: int) -> int:
        self.accepts.append(chars)
        self.edges.append([])
        self.again.append([])
        return len(self.accepts) - 1

    def connect(
        self, last: Sequence[tuple[int, int]], first: Sequence[tuple[int, int]], again: bool = False
    ) -> None:
        for state, not_after in last:
            for after, not_before in first:
                chars = self.accepts[after] & ~not_after & ~not_before
                if chars:
                    (self.again if again else self.edges)[state].append((after, chars))

    def join(self, left: _Piece, right: _Piece) -> _Piece:
        self.connect(left.last, right.first)
        return _Piece(
            left.first + [(to, no | skip) for skip in left.skips for to, no in right.first],
            right.last + [(to, no | skip) for skip in right.skips for to, no in left.last],
            [one | other for one in left.skips for other in right.skips],
        )

    def reachable(self, start: int, *, again: bool) -> set[int]:
        """The states that come after a state, itself only if it can come again."""
        found: set[int] = set()
        waiting = [start]
        while waiting:
            state = waiting.pop()
            for after, _ in self.edges[state] + (self.again[state] if again else []):
                if after not in found:
                    found.add(after)
                    waiting.append(after)
        return found


class Unsupported(Exception):
    """The pattern uses what is never linear, or not known here."""


def parsed(pattern: str | bytes, flags: int = 0) -> Any:
    """The nodes of a pattern."""
    return _parser.parse(pattern, flags)


def finding(pattern: str | bytes, flags: int, use: Use) -> str:
    """Why a pattern may be slow; empty: it needs time in proportion to the text."""
    tree = parsed(pattern, flags)
    automaton = _Automaton()
    try:
        nodes, start = _anchored(list(tree), tree.state.flags, use, automaton)
        whole = _sequence(automaton, nodes, tree.state.flags)
    except Unsupported as error:
        return str(error)
    if use is Use.TOKENS and not _takes_all(nodes):
        _repeat_match(automaton, whole)
    if start is not None:
        _search(automaton, whole, start)
    return _ambiguity(automaton) or _many_ways(automaton, whole)


def _anchored(
    nodes: list[Any], flags: int, use: Use, automaton: _Automaton
) -> tuple[list[Any], int | None]:
    """The nodes, and the state from which a search enters them; None: it begins nowhere else."""
    if use is not Use.SEARCH:
        return nodes, None
    everything = automaton.state(_ALL)
    automaton.connect([(everything, 0)], [(everything, 0)])
    if not nodes or nodes[0][1] not in (_names.AT_BEGINNING, _names.AT_BEGINNING_STRING):
        return nodes, everything
    if nodes[0][1] is _names.AT_BEGINNING_STRING or not flags & _names.SRE_FLAG_MULTILINE:
        return nodes, None
    newline = automaton.state(_NEWLINE)
    automaton.connect([(everything, 0)], [(newline, 0)])
    return nodes, newline


def _search(automaton: _Automaton, whole: _Piece, start: int) -> None:
    """Let the pattern begin anywhere. A way that is a match, whatever comes, is not tried again."""
    automaton.connect([(start, 0)], whole.first)
    if automaton.guarded:
        return
    ends = {state for state, _ in whole.last}
    sure = {state for state in ends if automaton.reachable(state, again=False) <= ends}
    for edges in automaton.edges:
        edges[:] = [edge for edge in edges if edge[0] not in sure]


def _takes_all(nodes: Sequence[Any]) -> bool:
    """Whether a second match, where the first one ended, has nothing to take."""
    if len(nodes) != 1 or nodes[0][0] is not _names.POSSESSIVE_REPEAT:
        return False
    return nodes[0][1][1] is _names.MAXREPEAT


def _repeat_match(automaton: _Automaton, whole: _Piece) -> None:
    """Let the pattern begin where it ended; not with what the former match would have taken."""
    ends = {state for state, _ in whole.last}
    taken = dict.fromkeys(ends, 0)
    if not automaton.guarded and not automaton.lazy:
        for state in ends:
            for after, chars in automaton.edges[state]:
                taken[state] |= chars if after in ends else 0
    last = [(state, no | taken[state]) for state, no in whole.last]
    automaton.connect(last, whole.first, again=True)


def _sequence(automaton: _Automaton, nodes: Sequence[Any], flags: int) -> _Piece:
    joined = _Piece([], [], [0])
    for node in nodes:
        joined = automaton.join(joined, _build(automaton, node, flags))
    return joined


def _build(automaton: _Automaton, node: Any, flags: int) -> _Piece:
    name, value = node
    if name in _SINGLE:
        state = automaton.state(_chars_of(node, flags))
        return _Piece([(state, 0)], [(state, 0)], [])
    if name in _REPEATS:
        return _repeat(automaton, node, flags)
    if name is _names.SUBPATTERN:
        _, more, fewer, nodes = value
        return _sequence(automaton, nodes, (flags | more) & ~fewer)
    if name is _names.BRANCH:
        pieces = [_sequence(automaton, nodes, flags) for nodes in value[1]]
        return _Piece(
            [entry for piece in pieces for entry in piece.first],
            [exit for piece in pieces for exit in piece.last],
            [skip for piece in pieces for skip in piece.skips],
        )
    if name is _names.ATOMIC_GROUP:
        if len(value) == 1 and value[0][0] in _REPEATS:
            return _repeat(automaton, (_names.POSSESSIVE_REPEAT, value[0][1]), flags)
        return _sequence(automaton, value, flags)
    automaton.guarded = True
    if name is _names.AT:
        ends = {_names.AT_END: _ALL & ~_NEWLINE, _names.AT_END_STRING: _ALL}
        return _Piece([], [], [ends.get(value, 0)])
    if name not in (_names.ASSERT, _names.ASSERT_NOT):
        raise Unsupported(f"{name} is not linear, or not known here")
    return _Piece([], [], [_look(name, value, flags)])


def _look(name: Any, value: Any, flags: int) -> int:
    """The characters that cannot come after a look-around, as far as that is known."""
    direction, nodes = value
    if nodes.getwidth()[1] > _LOOK_MAX:
        raise Unsupported("looks around over any number of characters")
    if direction < 0 or len(nodes) != 1 or nodes[0][0] not in _SINGLE:
        return 0
    chars = _chars_of(nodes[0], flags)
    return chars if name is _names.ASSERT_NOT else _ALL & ~chars


def _repeat(automaton: _Automaton, node: Any, flags: int) -> _Piece:
    least, most, part = node[1]
    automaton.lazy |= node[0] is _names.MIN_REPEAT
    endless = most is _names.MAXREPEAT or most > SMALL
    copies = (min(least, SMALL) or 1) if endless else most
    # What a possessive repetition leaves is nothing that it would have taken.
    own = 0
    if node[0] is _names.POSSESSIVE_REPEAT and len(part) == 1 and part[0][0] in _SINGLE:
        own = _chars_of(part[0], flags)
    tail = _Piece([], [], [0])
    for number in range(copies, 0, -1):
        piece = _sequence(automaton, part, flags)
        if endless and number == copies:
            automaton.connect(piece.last, piece.first)
            if most is _names.MAXREPEAT:
                piece = _Piece(piece.first, [(to, no | own) for to, no in piece.last], piece.skips)
        tail = automaton.join(piece, tail)
        if number > least:
            tail = _Piece(tail.first, tail.last, [own])
    return tail


def _chars_of(node: Any, flags: int) -> int:
    return _chars_matching(repr(node), flags, _Hidden(node))


@dataclass(frozen=True)
class _Hidden:
    """A node beside the text that stands for it as a key."""

    node: Any = field(compare=False)


@cache
def _chars_matching(key: str, flags: int, hidden: _Hidden) -> int:
    compiled = _compiler.compile(_parser.SubPattern(_parser.State(), [hidden.node]), flags)
    is_text = bool(flags & _names.SRE_FLAG_UNICODE) or bool(flags & _names.SRE_FLAG_ASCII)
    found = 0
    for number, char in enumerate(_CHARS):
        if number < 256 or is_text:
            matched = compiled.fullmatch(char if is_text else char.encode("latin-1"))
            found |= bool(matched) << number
    return found


def _ambiguity(automaton: _Automaton) -> str:
    states = range(len(automaton.accepts))
    after = [automaton.reachable(state, again=True) for state in states]
    looping = [state for state in states if state in after[state]]
    for p in looping:
        for number, (to, chars) in enumerate(automaton.edges[p] + automaton.again[p]):
            others = (other for other in automaton.edges[p][:number] if other[0] == to)
            if p in after[to] and any(chars & other for _, other in others):
                return "a repetition within a repetition takes the same characters"
    for q in looping:
        # What is tried in vain is within one match; what comes before it may be several.
        if q in automaton.reachable(q, again=False):
            for p in looping:
                if p != q and q in after[p] and _pumps(automaton, after, p, q):
                    return f"two repetitions take the same {_shown(automaton, p, q)}"
    return ""


def _pumps(automaton: _Automaton, after: list[set[int]], p: int, q: int) -> bool:
    """Whether one text leads from p to p, from p to q and from q to q."""
    found = {(p, p, q)}
    waiting = [(p, p, q)]
    while waiting:
        for triple in _steps(automaton, waiting.pop()):
            if triple == (p, q, q):
                return True
            first, second, third = triple
            near = p in after[first] and q in after[third] and (second == q or q in after[second])
            if near and triple not in found:
                found.add(triple)
                waiting.append(triple)
    return False


def _steps(automaton: _Automaton, at: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    for first, chars in automaton.edges[at[0]] + automaton.again[at[0]]:
        for second, more in automaton.edges[at[1]] + automaton.again[at[1]]:
            if chars & more:
                for third, most in automaton.edges[at[2]]:
                    if chars & more & most:
                        yield first, second, third


def _shown(automaton: _Automaton, p: int, q: int) -> str:
    common = automaton.accepts[p] & automaton.accepts[q]
    chars = [char for number, char in enumerate(_CHARS) if common >> number & 1]
    return f"characters, such as {min(chars, key=_plainness)!r}" if chars else "texts"


def _plainness(char: str) -> tuple[bool, bool, str]:
    return not char.isalnum(), not char.isprintable(), char


def _many_ways(automaton: _Automaton, whole: _Piece) -> str:
    """Ways that do not grow with the text, but are many: ``a?`` sixty times."""
    kinds: dict[tuple[int, ...], int] = {}  # of characters; one of each is enough
    for char in range(len(_CHARS)):
        kinds.setdefault(tuple(chars >> char & 1 for chars in automaton.accepts), char)
    for char in kinds.values():
        ways = dict.fromkeys(range(len(automaton.accepts)), 0)
        for state, no in whole.first:
            ways[state] += (automaton.accepts[state] & ~no) >> char & 1
        for _ in range(_LENGTH):
            if sum(ways.values()) > WAYS_MAX:
                return f"there are more than {WAYS_MAX} ways to match {_CHARS[char]!r} repeated"
            following = dict.fromkeys(ways, 0)
            for state, count in ways.items():
                if count:
                    for to, chars in automaton.edges[state]:
                        following[to] += count * (chars >> char & 1)
            ways = following
    return ""
