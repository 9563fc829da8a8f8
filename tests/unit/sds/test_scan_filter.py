import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix
from tests.unit.sds.bed import steady

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import SizeExceeded, ValidationFailed
from opentalos.model.table import KeyPart, TableSchema
from opentalos.sds.scan_filter import DEPTH_MAX, compile

T = DataType
SCHEMA = TableSchema(
    primary=(KeyPart("k"),),
    attributes={
        "k": T.INT64,
        "a": T.INT8,
        "b": T.INT32,
        "x": T.DOUBLE,
        "s": T.STRING,
        "t": T.STRING,
        "ok": T.BOOL,
        "raw": T.RAWBINARY,
        "bin": T.BINARY,
        "tags": T.STRING_SET,
        "two words": T.STRING,
        "and": T.INT8,
    },
)


def record(**given: Any) -> dict[str, Datum]:
    names = {name.replace("__", " "): value for name, value in given.items()}
    return {name: Datum(SCHEMA.attributes[name], value) for name, value in names.items()}


FULL = record(
    k=7,
    a=1,
    b=-5,
    x=2.5,
    s="it's",
    t='say "hi"',
    ok=True,
    raw=b"\x00\xff",
    bin=b"ab",
    tags=("a",),
    two__words="é",
    **{"and": 3},
)


@matrix(
    "text",
    [
        "",
        "  ",
        "k = 7",
        "k==7",
        "7 = k",
        "8 > k",
        "a < 2 AND b <= -5",
        "a != 2 and b <> 0",
        "a = 2 OR b = -5",
        "NOT a = 2",
        "NOT NOT a = 1",
        "NOT (a = 1 AND b = 1)",
        "(((a = 1)))",
        "a = 2 AND a = 3 OR b = -5",
        "b = -5 OR a = 2 AND a = 3",
        "NOT a = 2 AND b = -5",
        "x > 2",
        "x >= 2.5",
        "x = 25e-1 AND x < .3E+1 AND x < 3.",
        "a < 1.5",
        "b < a",
        "s = 'it''s'",
        's = "it\'s"',
        't = "say ""hi"""',
        "t = 'say \"hi\"'",
        "s < t",
        "ok = TRUE",
        "ok != false",
        "ok > FALSE",
        "raw = X'00ff'",
        "bin >= x'6162' AND bin = raw OR bin <> X''",
        "tags IS NOT NULL",
        "`two words` = 'é'",
        "`and` = 3",
        "`a` = 1",
        "\n a\t= 1 ",
        "a=1 AND b=-5",
    ],
)
def test_a_condition_that_is_true_of_the_record(text: str) -> None:
    assert compile(text, SCHEMA)(FULL)


@pytest.mark.parametrize(
    "text",
    ["k = 8", "a = 1 AND b = 1", "a = 2 OR b = 1", "NOT k = 7", "s = 'IT''S'", "k IS NULL"],
)
def test_a_condition_that_is_false_of_the_record(text: str) -> None:
    assert not compile(text, SCHEMA)(FULL)


@matrix(
    ("text", "matches"),
    [
        ("b = 1", False),
        ("b != 1", False),
        ("NOT b = 1", False),
        ("NOT b != 1", False),
        ("1 < b", False),
        ("b = a", False),
        ("a = b", False),
        ("b IS NULL", True),
        ("NOT b IS NULL", False),
        ("b IS NOT NULL", False),
        ("b = 1 OR a = 1", True),
        ("b = 1 OR a = 2", False),
        ("NOT (b = 1 OR a = 2)", False),
        ("b = 1 AND a = 1", False),
        ("NOT (b = 1 AND a = 1)", False),
        ("NOT (b = 1 AND a = 2)", True),
        ("NOT (b = 1 OR a = 1)", False),
    ],
)
def test_what_an_absent_column_decides_is_neither_true_nor_false(text: str, matches: bool) -> None:
    assert compile(text, SCHEMA)(record(k=1, a=1)) is matches


@matrix(
    ("text", "character", "wrong"),
    [
        ("z = 1", 1, "the table has no column z"),
        ("a = 1 AND `no` = 1", 11, "the table has no column no"),
        ("a", 2, "a comparison or IS was expected"),
        ("a = ", 5, "a column or a literal was expected"),
        ("a ( 1", 3, "a comparison or IS was expected"),
        ("a = 1 b = 1", 7, "AND, OR or the end was expected, not 'b'"),
        ("a = 1)", 6, "AND, OR or the end was expected, not ')'"),
        ("(a = 1", 1, "this ( is not closed"),
        ("()", 2, "a column or a literal was expected"),
        ("a = 1 AND", 10, "a column or a literal was expected"),
        ("OR a = 1", 1, "a column or a literal was expected"),
        ("1 = 1", 1, "two literals are compared, no column"),
        ("a = 'x'", 5, "text cannot be compared with a number"),
        ("s = 1", 5, "a number cannot be compared with text"),
        ("ok = 1", 6, "a number cannot be compared with a truth value"),
        ("bin = 'a'", 7, "text cannot be compared with bytes"),
        ("tags = 'a'", 8, "text cannot be compared with STRING_SET tags"),
        ("raw < X'00'", 5, "RAWBINARY has no order"),
        ("X'00' < raw", 7, "RAWBINARY has no order"),
        ("a = NULL", 5, "say IS NULL or IS NOT NULL"),
        ("a IS 1", 6, "NULL was expected after IS"),
        ("a IS NOT 1", 10, "NULL was expected after IS"),
        ("1 IS NULL", 1, "a literal is never null"),
        ("a = 1 ; b = 1", 7, "';' begins nothing that is known here"),
        ("s = 'abc", 5, '"\'" begins nothing that is known here'),
        ("a = 12abc", 5, "'1' begins nothing"),
        ("a = 1.2.3", 5, "'1' begins nothing"),
        ("é = 1", 1, "'é' begins nothing"),
        ("raw = X'0'", 7, "the table has no column X"),
        ("a = " + "1" * 33, 5, "a number of more than 32 digits"),
        ("`` = 1", 1, "'`' begins nothing"),
    ],
)
def test_a_wrong_condition_reports_its_position(text: str, character: int, wrong: str) -> None:
    with pytest.raises(ValidationFailed) as failure:
        compile(text, SCHEMA)
    assert str(failure.value).startswith(f"condition, character {character}: ")
    assert wrong in str(failure.value)


def test_depth_is_bounded() -> None:
    for before, after in (("(", ")"), ("NOT ", "")):
        compile(before * DEPTH_MAX + "a = 1" + after * DEPTH_MAX, SCHEMA)
        with pytest.raises(ValidationFailed, match="within each other"):
            compile(before * (DEPTH_MAX + 1) + "a = 1" + after * (DEPTH_MAX + 1), SCHEMA)


def test_length_is_bounded() -> None:
    text = " OR ".join(["a = 1"] * 900)
    assert compile(text, SCHEMA)(FULL)
    with pytest.raises(SizeExceeded, match="the condition has 8996 bytes, at most 8192"):
        compile(" OR ".join(["a = 1"] * 1_000), SCHEMA)
    with pytest.raises(SizeExceeded, match="7 bytes, at most 5"):
        compile("`é`= 1", SCHEMA, 5)


terms = st.tuples(st.sampled_from("ab"), st.sampled_from(["=", "<", ">"]), st.integers(-2, 2))
trees = st.recursive(
    terms,
    lambda inner: (
        st.tuples(st.just("NOT"), inner) | st.tuples(st.sampled_from(["AND", "OR"]), inner, inner)
    ),
    max_leaves=8,
)
PYTHON = {"=": operator.eq, "<": operator.lt, ">": operator.gt}


def spelled(tree: Any) -> str:
    if tree[0] == "NOT":
        return f"NOT ({spelled(tree[1])})"
    if tree[0] in ("AND", "OR"):
        return f"({spelled(tree[1])}) {tree[0]} ({spelled(tree[2])})"
    return " ".join(map(str, tree))


def evaluated(tree: Any, given: dict[str, int | None]) -> bool | None:
    if tree[0] == "NOT":
        found = evaluated(tree[1], given)
        return None if found is None else not found
    if tree[0] in ("AND", "OR"):
        parts = {evaluated(tree[1], given), evaluated(tree[2], given)}
        decides = tree[0] == "OR"
        return decides if decides in parts else None if None in parts else not decides
    value = given[tree[0]]
    return None if value is None else PYTHON[tree[1]](value, tree[2])


small = st.none() | st.integers(-2, 2)


@given(trees, small, small)
@steady
def test_conditions_are_of_three_values(tree: Any, a: int | None, b: int | None) -> None:
    given = {"a": a, "b": b}
    found = record(**{name: value for name, value in given.items() if value is not None})
    assert compile(spelled(tree), SCHEMA)(found) is (evaluated(tree, given) is True)


@given(st.text("ab=<>()'\"` ANDORTISULX01.-é;", max_size=30))
@steady
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        match = compile(text, SCHEMA)
    except ValidationFailed:
        return
    assert match(FULL) in (True, False)
