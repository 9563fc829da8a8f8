"""Conditions of scans: a text like SQL's WHERE, compiled once and applied to each record.

Shape: or := and (OR and)*; and := not (AND not)*; not := NOT* test; test := ( or ) | operand
    (= | == | != | <> | < | <= | > | >=) operand | column IS [NOT] NULL; operand := column |
    literal. Column: a plain name, or any name in `...`. Literal: 12, -1.5e3, 'text' or "text" (the
    quote doubled inside), TRUE, FALSE, X'00ff' for bytes. Words are in any case.

A comparison with a column that the record does not have is unknown, as in SQL, and so is what it
decides; a record matches if the whole condition is true.
Reference: docs/reference/sds-conditions.md.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from opentalos.model.datum import Columns, DataType
from opentalos.model.errors import SizeExceeded, ValidationFailed
from opentalos.model.mutation import ConditionOperator
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import TableSchema
from opentalos.sds.condition import COMPARISONS, EQUALITY
from opentalos.sds.value_rules import INTEGER_BITS

TEXT_BYTES_MAX: Final = SdsLimits().condition_bytes_max
DEPTH_MAX: Final = 64  # of parentheses and NOTs within each other
DIGITS_MAX: Final = 32  # of an integer; INT64 has 19

_Node = Callable[[Columns], bool | None]

_OPERATORS: Final[Mapping[str, ConditionOperator]] = {
    "=": ConditionOperator.EQUAL,
    "==": ConditionOperator.EQUAL,
    "!=": ConditionOperator.NOT_EQUAL,
    "<>": ConditionOperator.NOT_EQUAL,
    "<": ConditionOperator.LESS,
    "<=": ConditionOperator.LESS_OR_EQUAL,
    ">": ConditionOperator.GREATER,
    ">=": ConditionOperator.GREATER_OR_EQUAL,
}
_WORDS: Final = frozenset(("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE"))
_TOKEN: Final = re.compile(  # what a repetition took is not tried again: the text is a client's
    r"""\s*+(?:
      (?P<bytes>[xX]'(?:[0-9a-fA-F]{2})*+')
    | (?P<number>-?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)(?![\w.])
    | (?P<word>[^\W\d]\w*+)
    | (?P<name>`[^`]+`)
    | (?P<text>'(?:[^']|'')*'(?!')|"(?:[^"]|"")*"(?!"))
    | (?P<sign><=|>=|<>|!=|==|[=<>()])
    | (?P<end>$)
    )""",
    re.VERBOSE | re.ASCII,
)


class _Kind(NamedTuple):
    """What values of a type can be compared with."""

    name: str
    ordered: bool = True


_NUMBER: Final = _Kind("a number")
_TEXT: Final = _Kind("text")
_TRUTH: Final = _Kind("a truth value")
_BYTES: Final = _Kind("bytes")
_RAW_BYTES: Final = _Kind("bytes", ordered=False)
_KINDS: Final[Mapping[DataType, _Kind]] = {
    DataType.BOOL: _TRUTH,
    **dict.fromkeys(INTEGER_BITS, _NUMBER),
    DataType.FLOAT: _NUMBER,
    DataType.DOUBLE: _NUMBER,
    DataType.STRING: _TEXT,
    DataType.BINARY: _BYTES,
    DataType.RAWBINARY: _RAW_BYTES,
}


class _Token(NamedTuple):
    kind: str
    text: str
    position: int  # of its first character, from 0


class _Operand(NamedTuple):
    """A column, or a literal (``column`` is empty)."""

    column: str
    value: Any
    kind: _Kind
    position: int


def compile(
    text: str, schema: TableSchema, bytes_max: int = TEXT_BYTES_MAX
) -> Callable[[Columns], bool]:
    """A test for whole records, keys included. An empty text matches all.

    Raises: ValidationFailed with the place, SizeExceeded.
    """
    size = len(text.encode(errors="replace"))
    if size > bytes_max:
        raise SizeExceeded(f"the condition has {size} bytes, at most {bytes_max}")
    if not text.strip():
        return lambda record: True
    node = _Parser(text, schema).parse()
    return lambda record: node(record) is True


def _wrong(position: int, what: str) -> ValidationFailed:
    return ValidationFailed(f"condition, character {position + 1}: {what}")


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise _wrong(start, f"{text[start : start + 1]!r} begins nothing that is known here")
        kind = str(found.lastgroup)
        token = _Token(kind, found[kind], found.start(kind))
        if kind == "word" and token.text.upper() in _WORDS:
            token = token._replace(kind="keyword", text=token.text.upper())
        tokens.append(token)
        if kind == "end":
            return tokens
        position = found.end()


class _Parser:
    """Recursive descent over the tokens of one condition."""

    def __init__(self, text: str, schema: TableSchema) -> None:
        self._tokens = _tokens(text)
        self._schema = schema
        self._at = 0

    def parse(self) -> _Node:
        node = self._or(0)
        token = self._tokens[self._at]
        if token.kind != "end":
            raise _wrong(token.position, f"AND, OR or the end was expected, not {token.text!r}")
        return node

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _take(self, text: str) -> bool:
        """Whether the next token is this keyword or sign; then it is passed."""
        token = self._tokens[self._at]
        if token.text != text or token.kind not in ("keyword", "sign"):
            return False
        self._at += 1
        return True

    def _or(self, depth: int) -> _Node:
        nodes = [self._and(depth)]
        while self._take("OR"):
            nodes.append(self._and(depth))
        return nodes[0] if len(nodes) == 1 else _any_of(nodes)

    def _and(self, depth: int) -> _Node:
        nodes = [self._not(depth)]
        while self._take("AND"):
            nodes.append(self._not(depth))
        return nodes[0] if len(nodes) == 1 else _all_of(nodes)

    def _not(self, depth: int) -> _Node:
        position = self._tokens[self._at].position
        if depth > DEPTH_MAX:
            raise _wrong(position, f"more than {DEPTH_MAX} of ( and NOT within each other")
        if self._take("NOT"):
            return _negation(self._not(depth + 1))
        if self._take("("):
            node = self._or(depth + 1)
            if not self._take(")"):
                raise _wrong(position, "this ( is not closed")
            return node
        return self._test()

    def _test(self) -> _Node:
        left = self._operand()
        if self._take("IS"):
            return self._null_test(left)
        token = self._next()
        wanted = _OPERATORS.get(token.text) if token.kind == "sign" else None
        if wanted is None:
            raise _wrong(token.position, "a comparison or IS was expected")
        right = self._operand()
        if not left.column and not right.column:
            raise _wrong(left.position, "two literals are compared, no column")
        if left.kind.name != right.kind.name:
            raise _wrong(
                right.position, f"{right.kind.name} cannot be compared with {left.kind.name}"
            )
        if wanted not in EQUALITY and not (left.kind.ordered and right.kind.ordered):
            raise _wrong(token.position, "RAWBINARY has no order")
        return _comparison(COMPARISONS[wanted], left, right)

    def _null_test(self, left: _Operand) -> _Node:
        negated = self._take("NOT")
        if not self._take("NULL"):
            raise _wrong(self._tokens[self._at].position, "NULL was expected after IS")
        if not left.column:
            raise _wrong(left.position, "a literal is never null")
        name = left.column
        return lambda record: (name in record) is negated

    def _operand(self) -> _Operand:
        kind, text, position = token = self._next()
        if kind == "word":
            return self._column(text, position)
        if kind == "name":
            return self._column(text[1:-1], position)
        if kind == "number":
            return _Operand("", _number(token), _NUMBER, position)
        if kind == "text":
            quote = text[0]
            return _Operand("", text[1:-1].replace(quote * 2, quote), _TEXT, position)
        if kind == "bytes":
            return _Operand("", bytes.fromhex(text[2:-1]), _BYTES, position)
        if text in ("TRUE", "FALSE"):
            return _Operand("", text == "TRUE", _TRUTH, position)
        if text == "NULL":
            raise _wrong(position, "nothing is equal to NULL; say IS NULL or IS NOT NULL")
        raise _wrong(position, "a column or a literal was expected")

    def _column(self, name: str, position: int) -> _Operand:
        type_ = self._schema.attributes.get(name)
        if type_ is None:
            raise _wrong(position, f"the table has no column {name}")
        kind = _KINDS.get(type_)
        if kind is None:  # a set: only IS NULL follows
            kind = _Kind(f"{type_.name} {name}", ordered=False)
        return _Operand(name, None, kind, position)


def _number(token: _Token) -> int | float:
    text = token.text
    if text.lstrip("-").isdigit():
        if len(text) > DIGITS_MAX:
            raise _wrong(token.position, f"a number of more than {DIGITS_MAX} digits")
        return int(text)
    return float(text)


def _comparison(compare: Callable[[Any, Any], bool], left: _Operand, right: _Operand) -> _Node:
    first, second = left.column, right.column
    if first and second:

        def of_two(record: Columns) -> bool | None:
            if first not in record or second not in record:
                return None
            return compare(record[first].value, record[second].value)

        return of_two
    value = right.value

    def of_one(record: Columns) -> bool | None:
        datum = record.get(first)
        return None if datum is None else compare(datum.value, value)

    def turned(record: Columns) -> bool | None:
        datum = record.get(second)
        return None if datum is None else compare(left.value, datum.value)

    return of_one if first else turned


def _negation(node: _Node) -> _Node:
    def negated(record: Columns) -> bool | None:
        found = node(record)
        return None if found is None else not found

    return negated


def _all_of(nodes: list[_Node]) -> _Node:
    def all_of(record: Columns) -> bool | None:
        unknown = False
        for node in nodes:
            found = node(record)
            if found is False:
                return False
            unknown = unknown or found is None
        return None if unknown else True

    return all_of


def _any_of(nodes: list[_Node]) -> _Node:
    def any_of(record: Columns) -> bool | None:
        unknown = False
        for node in nodes:
            found = node(record)
            if found:
                return True
            unknown = unknown or found is None
        return None if unknown else False

    return any_of
