"""Pictures of lines are well-formed and show what they are given."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.line_picture import Labels, draw

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("logarithmic", [False, True])
def test_more_puts_are_drawn_higher_up(tmp_path: Path, logarithmic: bool) -> None:
    path = tmp_path / "made" / "shards.svg"
    lines = {"SQLite": {1: 2_000.0, 8: 4_100.0}, "HBase": {1: 900.0, 8: 3_000.0}}
    draw(lines, Labels("Puts", "shards", logarithmic), path)
    root = ElementTree.parse(path).getroot()
    heights = [float(item.attrib["cy"]) for item in root.iter(f"{SVG}circle")]
    assert len(heights) == 4
    assert heights[1] < heights[3] < heights[0] < heights[2]
    said = [item.text for item in root.iter(f"{SVG}text")]
    assert {"Puts", "shards", "SQLite", "HBase", "1", "8"} <= {*said}
    assert ("10,000" if logarithmic else "5,000") in said


def test_equal_values_that_are_powers_of_ten_have_an_axis(tmp_path: Path) -> None:
    path = tmp_path / "flat.svg"
    draw({"P99": {1: 10.0, 8: 10.0}}, Labels("P99", "partitions", logarithmic=True), path)
    root = ElementTree.parse(path).getroot()
    assert {"10", "100"} <= {item.text for item in root.iter(f"{SVG}text")}
