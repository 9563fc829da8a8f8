"""Which names a mistyped one suggests."""

import pytest

from opentalos.cli.input.nearest import nearest


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("prodcue", "produce"), ("tpoic", "topic"), ("opic", "topic"), ("tbl", "table"),
        ("ordres", "orders"), ("Orders", "orders"), ("order", "orders"), ("demo", "demo-live"),
    ],
)  # fmt: skip
def test_a_typo_suggests_what_was_meant(name: str, known: str) -> None:
    assert nearest(name, ["zebra", known]) == [known]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("missing", "billing"), ("clicks", "topics"), ("clicks", "bricks"), ("orders", "readers"),
        ("get", "agent"), ("stop", "topic"), ("start", "restore"), ("MISSING", "t"), ("", "t"),
    ],
)  # fmt: skip
def test_names_that_share_only_some_letters_suggest_nothing(name: str, known: str) -> None:
    assert nearest(name, [known]) == []


def test_the_most_similar_come_first_and_they_are_few() -> None:
    names = ["orders4", "orders-eu", "orders", "orders3", "orders2"]
    assert nearest("order", names) == ["orders", "orders2", "orders3"]
