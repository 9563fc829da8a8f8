"""Each check accepts exactly its kind of value and says what is allowed."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial

import pytest

from opentalos.model.checks import (
    ExactNumber,
    boolean,
    choice,
    integer,
    json_number,
    json_text,
    json_value,
    null,
    number,
    shown_value,
    size,
    string,
    without_body,
)


@pytest.mark.parametrize(
    ("check", "accepted", "rejected", "text"),
    [
        (integer, [0, 1 << 70], [-1, True, 1.0, "1", None], "must be an integer of 0 or more"),
        (
            partial(integer, minimum=-1, maximum=5_000),
            [-1, 5_000],
            [-2, 5_001],
            "must be an integer from -1 to 5,000",
        ),
        (
            number,
            [0, 0.5],
            [-0.5, True, float("nan"), float("inf"), "1"],
            "must be a number of 0 or more",
        ),
        (boolean, [True, False], [0, 1, "true", None], "must be true or false"),
        (string, ["", "a"], [1, None, b"a"], "must be a string"),
        (null, [None], [0, "", False], "must be null"),
        (partial(choice, allowed=("a", "b")), ["a"], ["c", 1, ["a"]], "must be one of a, b"),
    ],
)
def test_a_check_accepts_its_kind_and_says_what_is_allowed(
    check: Callable[[object], object], accepted: list[object], rejected: list[object], text: str
) -> None:
    for value in accepted:
        assert check(value) == value
    for value in rejected:
        with pytest.raises(ValueError, match=f"^{text}$"):
            check(value)


@pytest.mark.parametrize(
    ("count", "minimum", "maximum", "text"),
    [
        (2, 0, 1, "must have 0 to 1 item, not 2"),
        (0, 1, 3, "must have 1 to 3 items, not 0"),
        (0, 1, None, "must have 1 or more items, not 0"),
    ],
)
def test_a_wrong_size_names_the_bounds(
    count: int, minimum: int, maximum: int | None, text: str
) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        size(count, "item", minimum, maximum)


def test_a_rejected_value_is_shown_as_toml_writes_it() -> None:
    values = [True, "a", [1, "b"], Decimal("0.50"), float("inf"), None, "x" * 100]
    expected = ["true", '"a"', '[1, "b"]', "0.50", "inf", "null", '"' + "x" * 59 + "..."]
    assert [shown_value(value) for value in values] == expected


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("0.1", False), ("1.10", False), ("-0.0", False), ("1e22", False), ("5e-324", False),
        ("0.10000000000000000", False), ("9007199254740993.0", True), ("1e23", False),
        ("12345678901234567890.1", True), ("1e-400", True), ("1e-99999999999999999999999", True),
        ("0.1000000000000000055", True),
    ],
)  # fmt: skip
def test_a_number_that_no_double_is_keeps_its_text(text: str, exact: bool) -> None:
    found = json_number(text)
    assert found == float(text)
    assert isinstance(found, ExactNumber) == exact
    assert json_text([found]) == (f"[{text}]" if exact else f"[{float(text)!r}]")
    assert not (exact and found.is_integer())


def test_json_loses_nothing() -> None:
    text = '{"a":[1,0.1000000000000000055,null,"ü\\n"],"b":{"c":true}}'
    assert json_text(json_value(text)) == text
    with pytest.raises(ValueError, match='the field "b" is given twice'):
        json_value('{"a": 1, "b": {"a": 1}, "b": 2}')
    with pytest.raises(ValueError, match="1e999 is too large"):
        json_value("1e999")


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("body.name must be a string", "name must be a string"),
        ("body.acl[2].team must be null", "acl[2].team must be null"),
        ("each name in body.attributes must be short", "each name in attributes must be short"),
        ("body lacks the field name", "the request lacks the field name"),
        ("the body has 9 bytes", "the body has 9 bytes"),
        ("topic body.name does not exist", "topic body.name does not exist"),
    ],
)
def test_who_sent_no_body_is_shown_the_name_of_the_field_alone(detail: str, shown: str) -> None:
    assert without_body(detail) == shown
