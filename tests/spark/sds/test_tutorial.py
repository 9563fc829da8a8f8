"""The tutorial of tables, from an empty one to a Spark job that follows it, does what it says."""

import re
from pathlib import Path

import pytest
from tests.doc_page import run_page, titles
from tests.spark.java_classes import quick_environment

TUTORIAL = "tutorial-tables.md"


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in quick_environment().items():
        monkeypatch.setenv(name, text)
    said = run_page(TUTORIAL, tmp_path)
    assert len(re.findall(r"^sds-replay  batch \d+ .* lag 0$", said, re.MULTILINE)) == 2


def test_only_the_installation_is_left_to_the_test_of_the_package() -> None:
    assert titles(TUTORIAL) == ["install", "serve"]
