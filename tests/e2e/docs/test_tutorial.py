"""The tutorial's commands, in its order, against a real server; its outputs are what comes out."""

from pathlib import Path

from tests.doc_page import run_page, titles

TUTORIAL = "tutorial.md"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    said = run_page(TUTORIAL, tmp_path)
    assert '"lag": 1' in said  # the last block's answer


def test_only_the_installation_is_left_to_the_test_of_the_package() -> None:
    assert titles(TUTORIAL) == ["install", "serve"]
