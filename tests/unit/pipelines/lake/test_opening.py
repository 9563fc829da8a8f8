"""URLs of lake tables."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from opentalos.model.errors import ConfigError, NotFound
from opentalos.pipelines.lake.layout import TIME_TYPE, Layout
from opentalos.pipelines.lake.opening import open_lake_table, pipeline_table, table_place
from opentalos.pipelines.lake.parquet_table import ParquetTable

LAYOUT = Layout("t", pa.schema([pa.field("at", TIME_TYPE, nullable=False)]), "at")


def test_a_path_is_a_table_of_this_machine(tmp_path: Path) -> None:
    assert isinstance(open_lake_table(str(tmp_path / "t"), LAYOUT), ParquetTable)


@pytest.mark.parametrize(
    "url",
    [
        "hdfs://nn:9820/t",
        "delta+ftp://host/t",
        "delta+s3:///t",
        "delta+file://",
        "iceberg+s3://b/t",
    ],
)
def test_a_url_that_is_not_one_of_a_table_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the URL of a lake table: write /PATH, delta"):
        open_lake_table(url, LAYOUT)


def test_without_deltalake_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"pip install 'opentalos\[lake\]'"):
        open_lake_table(f"delta+file://{tmp_path}/t", LAYOUT)


def test_tables_of_pipelines_are_below_home_or_a_lake(tmp_path: Path) -> None:
    lake = "delta+hdfs://nn:9820/lake/"
    assert table_place(tmp_path, "", "usage") == f"{tmp_path}/lake/usage"
    assert table_place(tmp_path, lake, "side/x") == "delta+hdfs://nn:9820/lake/side/x"
    assert pipeline_table(tmp_path, "", LAYOUT).files() == []


def test_a_reader_creates_no_table_at_a_wrong_url(tmp_path: Path) -> None:
    lake = f"delta+file://{tmp_path}/lake"
    with pytest.raises(NotFound, match="no table of Delta is there; check the URL"):
        pipeline_table(tmp_path, lake, LAYOUT)
    assert not (tmp_path / "lake").exists()
    pipeline_table(tmp_path, lake, LAYOUT, create=True)
    assert pipeline_table(tmp_path, lake, LAYOUT).files() == []
