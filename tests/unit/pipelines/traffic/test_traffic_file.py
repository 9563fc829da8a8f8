"""Traffic files: days, rows, formats, and what is rejected."""

import sys
from datetime import date
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from opentalos.model.errors import ConfigError
from opentalos.model.message import PartitionKey
from opentalos.pipelines.traffic.traffic_file import read_traffic

HEAD = "topic,partition,day,bytes\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "traffic.csv"
    path.write_text(text)
    return path


def test_days_come_in_order_and_rows_of_a_day_add_up(tmp_path: Path) -> None:
    text = HEAD + (
        "alice#clicks#u1,0,2026-05-02,5\n"
        "u1,0,2026-05-01,1\n"
        "u1,0,2026-05-02,7\n"
        "u2,3,2026-05-02,9\n"
    )  # fmt: skip
    assert read_traffic(written(tmp_path, text)) == [
        {PartitionKey("u1", 0): 1},
        {PartitionKey("u1", 0): 12, PartitionKey("u2", 3): 9},
    ]


def test_numbered_days_are_ordered_as_numbers(tmp_path: Path) -> None:
    text = HEAD + "u1,0,10,2\nu1,0,9,1\n"
    assert [list(day.values()) for day in read_traffic(written(tmp_path, text))] == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topic,day\nu,1\n", "missing columns: partition, bytes"),
        ("", "missing columns: topic"),
        (HEAD + "u,0,2026-05-01,1\nu,x,2026-05-01,1\n", "row 2: invalid literal"),
        (HEAD + "u,0,yesterday,1\n", "row 1: Invalid isoformat"),
        (HEAD + "u,0,1,-5\n", "row 1: topic must not be empty"),
        (HEAD + "u,0\n", "row 1"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_row(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_traffic(written(tmp_path, text))


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    path = tmp_path / "traffic.parquet"
    columns = {
        "bytes": [1, 12],
        "topic": ["u1", "a#b#u1"],
        "partition": [0, 0],
        "day": [date(2026, 5, 1), date(2026, 5, 2)],
    }
    parquet.write_table(pyarrow.table(columns), path)
    assert read_traffic(path) == [{PartitionKey("u1", 0): 1}, {PartitionKey("u1", 0): 12}]
    path.write_bytes(b"PAR1 is not enough")
    with pytest.raises(ConfigError, match="is not a Parquet file"):
        read_traffic(path)


def test_parquet_without_pyarrow_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pip install pyarrow"):
        read_traffic(tmp_path / "traffic.parquet")
