"""Which disks executors write to."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.layout import TIME_TYPE, Layout
from opentalos.pipelines.lake.opening import open_lake_table
from opentalos.pipelines.lake.written_rows import (
    RowsMissing,
    check_files,
    check_shared,
    is_one_machine,
)

LAYOUT = Layout("t", pa.schema([pa.field("at", TIME_TYPE, nullable=False)]), "at")


def test_one_machine_is_what_runs_in_one_process() -> None:
    assert all(map(is_one_machine, ("local", "local[*]", "local[2]", "local[2,4]")))
    others = ("local-cluster[2,1,1024]", "spark://h:7077", "yarn", "k8s://https://h:6443")
    assert not any(map(is_one_machine, others))


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://h:7077", "yarn"])
def test_a_folder_of_one_machine_is_refused_for_executors_elsewhere(master: str) -> None:
    with pytest.raises(ConfigError, match=r"table t at /lake is a folder of one machine.*hdfs"):
        check_shared("table t at /lake", master, local=True)
    check_shared("table t at hdfs://h:1/lake", master, local=False)
    check_shared("table t at /lake", "local[4]", local=True)


@pytest.mark.parametrize("form", ["", "delta+file://"])
def test_files_that_the_driver_does_not_see_whole_are_noticed(tmp_path: Path, form: str) -> None:
    writer = open_lake_table(f"{form}{tmp_path}/t", LAYOUT).writer()
    at = pa.array([datetime(2026, 11, 21, 23, tzinfo=UTC)] * 2, TIME_TYPE)
    files = list(writer.write([pa.RecordBatch.from_arrays([at], schema=LAYOUT.schema)]))
    assert [file.rows for file in files] == [2]
    check_files("table t", writer, files)
    path = Path(writer.root.removeprefix("file://")) / files[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    missing = r"table t did not take the batch: .* has 0 of 2 rows; give a URL on which all"
    with pytest.raises(RowsMissing, match=missing):
        check_files("table t", writer, files)
    path.unlink()
    with pytest.raises(RowsMissing, match=missing):
        check_files("table t", writer, files)
