"""Paths lead to pages, and every page keeps the rules of the table."""

import re

import pytest

from opentalos.gateway.console.drawing import FOLDER
from opentalos.gateway.console.page import EVERYBODY, Query, Who, url
from opentalos.gateway.console.table import PAGES, find, menu


@pytest.mark.parametrize(
    ("path", "page", "places"),
    [
        ("", "", {}),
        ("topics", "topics", {}),
        ("topics/new", "topics/new", {}),
        ("topics/CL1%2Forders", "topics/{topic}", {"topic": "CL1/orders"}),
        ("topics/a%20b/messages/0/7", "topics/{topic}/messages/{partition}/{offset}",
         {"topic": "a b", "partition": "0", "offset": "7"}),
    ],
)  # fmt: skip
def test_paths(path: str, page: str, places: dict[str, str]) -> None:
    found = find(path)
    assert found is not None
    assert (found[0].path, found[1]) == (page, places)


@pytest.mark.parametrize(
    "path",
    ["nothing", "topics/", "topics//messages", "topics/%ff", "topics/" + "x" * 401, "/" * 99],
)
def test_no_paths(path: str) -> None:
    assert find(path) is None


def test_pages_are_unique_and_their_roles_exist() -> None:
    paths = [page.path for page in PAGES]
    assert len(set(paths)) == len(paths)
    for page in PAGES:
        assert page.roles <= EVERYBODY
        assert not page.menu or "{" not in page.path
        found = find(re.sub(r"\{\w+\}", "x", page.path))
        assert found is not None
        assert found[0] is page, f"{page.path} is hidden by {found[0].path}"


def test_the_menu_is_that_of_the_role() -> None:
    for role in EVERYBODY:
        names = [page.menu for page in menu(Who("x", "", "", role))]
        assert "Overview" in names
        assert len(set(names)) == len(names)


def test_templates_have_no_inline_code_and_mark_nothing_as_safe() -> None:
    for path in FOLDER.rglob("*.html"):
        text = path.read_text()
        for forbidden in (
            "|safe",
            "| safe",
            "<style",
            " style=",
            "hx-on",
            "javascript:",
            "autoescape",
        ):
            assert forbidden not in text, f"{path}: {forbidden}"
        assert not re.search(r"\son[a-z]+=", text), path
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), path


def test_forms_that_change_something_carry_the_proof() -> None:
    for path in FOLDER.rglob("*.html"):
        for form in re.findall(r'<form method="post".*?</form>', path.read_text(), re.DOTALL):
            if path.name == "ended.html":
                continue  # there is no session; what it sends only shows the form again
            assert "proof_field()" in form or "url('login'" in form, path


def test_urls_encode_names() -> None:
    assert url("topics", "CL1/a b?", find="x&y", page=None) == (
        "/console/topics/CL1%2Fa%20b%3F?find=x%26y"
    )
    assert url() == "/console/"


def test_values_of_queries() -> None:
    query = Query("/console/x", {"n": "7", "big": "9" * 30, "bad": "x", "c": "b", "t": " a "})
    assert [query.integer(name, 3, 0, 5) for name in ("n", "big", "bad", "none")] == [5, 3, 3, 3]
    assert [query.choice(name, ("a", "b")) for name in ("c", "bad", "none")] == ["b", "a", "a"]
    assert query.text("t") == "a"
    assert query.link(n=None, big=None, bad=None, t=None) == "/console/x?c=b"
