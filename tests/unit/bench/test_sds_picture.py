"""The picture of shards is well-formed and shows what it is given."""

from pathlib import Path
from xml.etree import ElementTree

from bench.sds_picture import draw

SVG = "{http://www.w3.org/2000/svg}"


def test_more_puts_are_drawn_higher_up(tmp_path: Path) -> None:
    path = tmp_path / "made" / "shards.svg"
    draw({"SQLite": {1: 2_000.0, 8: 4_100.0}, "HBase": {1: 900.0, 8: 3_000.0}}, path)
    root = ElementTree.parse(path).getroot()
    heights = [float(item.attrib["cy"]) for item in root.iter(f"{SVG}circle")]
    assert len(heights) == 4
    assert heights[1] < heights[3] < heights[0] < heights[2]
    said = [item.text for item in root.iter(f"{SVG}text")]
    assert {"SQLite", "HBase", "1", "8", "5,000"} <= {*said}
