import pytest

from opentalos.broker.groups.kafka.topic_regex import compile_regex


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders.*", "orders-eu"),
        ("^(orders|bills)-[a-z]+$", "bills-eu"),
        (r"a\.b\d{2,3}", "a.b123"),
        ("(?:x|y)z?", "y"),
        ("[^_].*", "topic"),
    ],
)
def test_common_expressions_match(text: str, name: str) -> None:
    assert compile_regex(text).fullmatch(name)
    assert not compile_regex(text).fullmatch("_other")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(a+)+",
        "(a|b)*c",
        "a.*b.*c.*d.*",
        r"(a)\1",
        "(?=a)b",
        "a{1,1000}",
        "x" * 300,
        "[",
        "a**",
        "(a",
    ],
)
def test_what_could_be_slow_or_is_unknown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_regex(text)
