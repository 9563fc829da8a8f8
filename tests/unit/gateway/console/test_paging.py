"""Lists are cut on the server, and links lead to the other parts."""

import pytest

from opentalos.gateway.console.page import Query
from opentalos.gateway.console.paging import matching, part

ROWS = list(range(101))


def of(**pairs: str) -> Query:
    return Query("/console/topics", pairs)


def test_parts_of_a_list() -> None:
    first = part(of(filter="a b"), ROWS)
    assert (first.first, first.last, first.total) == (1, 50, 101)
    assert (first.before, first.after) == ("", "/console/topics?filter=a+b&page=2")
    second = part(of(page="2"), ROWS)
    assert (second.rows[0], second.before) == (50, "/console/topics")
    last = part(of(page="3", rows="50"), ROWS)
    assert (list(last.rows), last.after) == ([100], "")
    assert last.before == "/console/topics?page=2&rows=50"


@pytest.mark.parametrize("page", ["0", "-1", "x", "99", "9" * 30, "٣"])
def test_pages_that_do_not_exist(page: str) -> None:
    assert part(of(page=page), ROWS).total == 101


def test_an_empty_list() -> None:
    empty = part(of(), [])
    assert (empty.first, empty.last, empty.total) == (0, 0, 0)
    assert (empty.before, empty.after) == ("", "")


def test_rows_are_bounded() -> None:
    assert len(part(of(rows="100000"), list(range(1_000))).rows) == 500
    few = part(of(rows="100", page="2"), list(range(1_000)), rows=10, rows_max=20)
    assert (list(few.rows), few.first) == (list(range(20, 40)), 21)


def test_filters_ignore_case() -> None:
    rows = [{"name": "Orders"}, {"name": "x", "owner": "ORDERLY"}, {"name": "y"}]
    assert len(matching(rows, "order", "name", "owner")) == 2
    assert matching(rows, "", "name") == rows
