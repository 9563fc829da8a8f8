"""Descriptions of a stream's jobs."""

import json

import pytest

from opentalos.model.errors import RequestError
from opentalos.pipelines.batch_description import description, rows_of
from opentalos.pipelines.datasource.source.batch_range import BatchRange

BATCH = BatchRange(begin={"t#1": {0: 5, 1: 7}}, end={"t#1": {0: 15, 1: 7}}, tasks=2)


def test_a_description_has_rows_and_lag_once_it_is_known() -> None:
    assert description("archive", 7, 1234, 56789) == (
        "archive: batch 7, 1,234 rows, lag 56,789 before it"
    )
    assert description("archive", 0, 0, None) == "archive: batch 0, 0 rows"


def test_rows_are_counted_from_sparks_log_of_offsets() -> None:
    metadata = json.dumps({"batchWatermarkMs": 0, "conf": {"a": "b"}})
    batch = json.dumps(BATCH.as_json())
    assert rows_of(f"v1\n{metadata}\n{batch}") == 10
    assert rows_of(f"v1\n{metadata}\n{batch}\n-\n{batch}") == 20


def test_a_damaged_log_is_an_error_that_the_caller_expects() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        rows_of('v1\n{"begin":')
    later = json.dumps({**BATCH.as_json(), "v": 99})
    with pytest.raises(RequestError):
        rows_of(f"v1\n{later}")
