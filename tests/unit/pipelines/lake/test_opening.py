"""URLs of lake tables."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.layout import TIME_TYPE, Layout
from opentalos.pipelines.lake.opening import open_lake_table
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
