"""The progress of a batch, from the report of Spark."""

import json
from pathlib import Path

from opentalos.pipelines.runtime.progress import Beat, progress_of, read_beat


def offset(**ends: int) -> str:
    return json.dumps({"v": 1, "tasks": 2, "begin": {"t": {"0": 0}}, "end": {"t": ends}})


def test_lag_is_what_the_log_has_and_no_batch_took() -> None:
    report = {
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 7,
        "sources": [
            {
                "numInputRows": 1500,
                "processedRowsPerSecond": 750.5,
                "latestOffset": offset(**{"0": 100, "1": 30}),
                "endOffset": offset(**{"0": 90}),
            }
        ],
    }
    progress = progress_of("archive", report)
    assert progress.lag == 40
    assert str(progress) == "archive  batch 7  1,500 rows  750 rows/s  lag 40"


def test_other_sources_have_no_lag() -> None:
    sources = [{"latestOffset": "12", "endOffset": None, "numInputRows": None}]
    progress = progress_of("x", {"batchId": 0, "sources": sources})
    assert (progress.rows, progress.rows_per_s, progress.lag) == (0, 0.0, 0)


def test_a_sign_of_life_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    assert read_beat(tmp_path, "archive") is None
    beat = Beat(12, 3, "running")
    beat.write(tmp_path, "archive")
    assert read_beat(tmp_path, "archive") == beat
    (tmp_path / "checkpoints" / "archive.beat.json").write_text("{")
    assert read_beat(tmp_path, "archive") is None
