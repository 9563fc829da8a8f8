import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.catalog.topics.pattern import PATTERN_CHARS_MAX, Pattern
from opentalos.model.errors import BadRequest


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("clicks", ["clicks"], ["click", "clicks2", ""]),
        ("clicks.*", ["clicks", "clicks-eu_1"], ["xclicks"]),
        ("*", ["anything", "a"], []),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("(ab)+c?", ["ab", "ababc"], ["c", "abcc"]),
        (r"t-\d\d", ["t-01"], ["t-1", "t-0a"]),
        (r"\w+", ["a_1"], ["a-1", ""]),
        ("[a-c_]x[^a-z]", ["bx1", "_xZ"], ["dx1", "bxq"]),
        (r"a\.b", [], ["axb"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in other if compiled.matches(name)] == []


@matrix(
    "pattern",
    [
        *("", "a{2}", "^a", "a$", "(a", "a)", "[a", "+", "a**", "a*+", "\\", r"\b", "(?=a)", "?"),
        "(" * 17 + "a" + ")" * 17,
        "a" * (PATTERN_CHARS_MAX + 1),
    ],
)
def test_what_is_not_supported_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest):
        Pattern(pattern)


def test_a_pattern_that_ruins_backtracking_matchers_stays_cheap() -> None:
    evil = Pattern("(a+)+(a|a)*(a?a?a?a?)+b")
    assert not evil.matches("a" * 80)
    assert evil.matches("a" * 79 + "b")


_atoms = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\d", "1"])
_patterns = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(_patterns, st.text(string.ascii_lowercase[:2] + "-1", max_size=6))
def test_the_result_is_that_of_the_usual_syntax(pattern: str, name: str) -> None:
    assert Pattern(pattern).matches(name) == bool(re.fullmatch(pattern, name))
