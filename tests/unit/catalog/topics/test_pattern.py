import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.catalog.topics.pattern import (
    PATTERN_CHARS_MAX,
    STATES_MAX,
    Pattern,
    topic_pattern,
)
from opentalos.model.errors import BadRequest


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("clicks", ["clicks"], ["click", "clicks2", ""]),
        ("clicks.*", ["clicks", "clicks-eu_1", "clicks.eu"], ["xclicks"]),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("(ab)+c?", ["ab", "ababc"], ["c", "abcc"]),
        (r"t-\d\d", ["t-01"], ["t-1", "t-0a"]),
        (r"\w+", ["a_1"], ["a-1", ""]),
        (r"\W\D\S", ["-a."], ["aaa", "-1a", "-a "]),
        ("[a-c_]x[^a-z]", ["bx1", "_xZ"], ["dx1", "bxq"]),
        (r"[\w.-]+[+*()]", ["a.b-c*"], ["a.b-c"]),
        (r"a\.b", ["a.b"], ["axb"]),
        ("^(orders|bills)-[a-z]+$", ["orders-eu", "bills-eu"], ["orders-", "orders-eu1"]),
        ("^a$|^b|c$", ["a", "b", "c"], ["ab", ""]),
        ("(^|eu[.])x(?:-y|$)", ["x", "eu.x", "x-y"], ["us.x", "x-"]),
        ("(^a)?b", ["ab", "b"], ["aab"]),
        ("alice/.*", ["alice/clicks"], ["bob/clicks"]),
        (r"a{2}-\d{1,3}-c{2,}", ["aa-1-cc", "aa-123-ccccc"], ["a-1-cc", "aa-1234-cc", "aa-1-c"]),
        ("(ab?){0,2}x{0}", ["", "a", "aba"], ["aaa", "x"]),
        ("a.*?b+?c??", ["ab", "axbbc"], ["a"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in other if compiled.matches(name)] == []


def test_a_lone_star_means_every_name_in_a_topic_group() -> None:
    assert all(map(topic_pattern("*").matches, ("a", "a-b", "eu.clicks", "_x")))
    with pytest.raises(BadRequest, match="nothing to repeat"):
        Pattern("*")


@matrix(
    "pattern",
    [
        *("", "(a", "a)", "[a", "[", "[]", "+", "a**", "a*+", "a{2}{2}", "\\", r"\b", "?", "]"),
        *("(?=a)", "(?i)a", "(?P<n>a)", r"(a)\1", "[[:alpha:]]", "[a&&b]", "[b-a]", r"[\d-z]"),
        *("a^b", "a$b", "(^a)+", "^*", "b*(^a)", "é", "\n", "a{", "a{,2}", "a{x}", "a{2,1}"),
        "a{1000}",
        "(" * 17 + "a" + ")" * 17,
        "a" * (PATTERN_CHARS_MAX + 1),
        f"a{{{STATES_MAX + 1}}}",
        "((a{20}){20}){20}",
        "((()*){255}){255}",
    ],
)
def test_what_is_not_supported_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest, match="topic pattern"):
        Pattern(pattern)


def test_a_refusal_says_where_and_why() -> None:
    with pytest.raises(BadRequest, match=r"character 3: of the groups with \(\? only \(\?:"):
        Pattern("x(?=a)")
    with pytest.raises(BadRequest, match="at most 256 characters and classes"):
        Pattern("(ab){129}")


@matrix(
    "pattern",
    ["a?" * 60 + "b", "(a?){250}b", "(a+)+(a|a)*(a?a?a?a?)+b", "(.*a)*(.*a)*b", ".{0,200}.*.*b"],
)
def test_the_work_of_a_match_is_bounded_by_name_and_pattern(pattern: str) -> None:
    evil = Pattern(pattern)
    names = ["a" * 60, "a" * 200, "ab" * 60 + "a", "x" * 200]
    assert [name for name in names if evil.matches(name)] == []
    assert evil.work <= sum(map(len, names)) * (STATES_MAX + 1)
    assert evil.matches("a" * 59 + "b")


def test_many_names_share_what_was_computed() -> None:
    pattern = Pattern("orders-[a-z]+-.*")
    names = [f"orders-{'ab' * (number % 9)}-{number}" for number in range(5_000)]
    assert sum(map(pattern.matches, names)) == sum(1 for name in names if "--" not in name)
    assert pattern.work < sum(map(len, names)) + 2_000


_atoms = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\d", r"\W", "1", r"\.", "(?:ab|)"])
_repeats = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])
_patterns = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, _repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda part: f"^{part}$"),
    ),
    max_leaves=6,
)
_names = st.text("ab-1./", max_size=7)


@settings(max_examples=200, deadline=None)
@given(st.one_of(_patterns, st.text("ab1|()*+?{}2,[]^-.$\\dw", max_size=9)), _names)
def test_the_result_is_that_of_the_usual_syntax(pattern: str, name: str) -> None:
    """Also of strange texts: what is accepted means the same to Python's engine."""
    try:
        compiled = Pattern(pattern)
    except BadRequest:
        return
    with warnings.catch_warnings(action="ignore"):  # Python's, about sets in later versions
        assert compiled.matches(name) == bool(re.fullmatch(pattern, name))
