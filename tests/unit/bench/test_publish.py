"""Figures reach the page as they were measured, and what missed its goal is said."""

import shutil
from pathlib import Path

import pytest
from bench.publish import PAGE, SOURCES, publish, replaced
from bench.report import Figure, at_least, at_most, write_json

FIGURES = [
    at_least("puts", "puts/s", 100.0, [90.0, 110.0, 80.0]),
    at_most("P99", "ms", 5.0, [4.0]),
    Figure(name="memory", unit="MiB", values=[60.0]),
]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    copy = tmp_path / "docs" / "performance.md"
    copy.parent.mkdir()
    shutil.copyfile(PAGE, copy)
    return copy


def test_each_result_has_a_section_on_the_page(tmp_path: Path, page: Path) -> None:
    for name in SOURCES:
        write_json(tmp_path / f"{name}.json", FIGURES)
    for _ in range(2):  # a second time in the same places
        assert publish(tmp_path, page) == list(SOURCES)
        assert page.read_text().count("| 90 puts/s |") == len(SOURCES)


def test_a_missed_goal_is_listed_and_others_are_not(tmp_path: Path, page: Path) -> None:
    write_json(tmp_path / "scale.json", FIGURES)
    before = page.read_text()
    assert publish(tmp_path, page) == ["scale"]
    section = page.read_text().split("<!-- measured: missed-scale -->")[1].split("<!-- end")[0]
    assert section.split() == "- puts: 90 puts/s (80 to 110), goal >= 100".split()
    after = "<!-- measured: missed-compare -->"
    assert (
        page.read_text().split(after)[1].split("<!-- end")[0]
        == (before.split(after)[1].split("<!-- end")[0])
    )


def test_pictures_lie_beside_the_page_and_are_shown(tmp_path: Path, page: Path) -> None:
    write_json(tmp_path / "scale.json", FIGURES)
    (tmp_path / "scale_rate_partitions.svg").write_text("<svg/>")
    publish(tmp_path, page)
    assert (page.parent / "scale_rate_partitions.svg").read_text() == "<svg/>"
    assert "](scale_rate_partitions.svg)" in page.read_text()


def test_a_section_that_the_page_lacks_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no section scale"):
        replaced("# Page\n", "scale", "")
