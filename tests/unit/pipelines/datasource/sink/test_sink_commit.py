"""The reports of tasks to the driver at the end of a write, and the texts made of them."""

import pickle

import pytest
from pyspark.sql import types

from opentalos.model.errors import ConfigError
from opentalos.pipelines.datasource.sink.block_writer import Stored
from opentalos.pipelines.datasource.sink.options import write_options
from opentalos.pipelines.datasource.sink.writers import TalosWriter, Written, aborted

STORED = Written([Stored("demo", 0, 3, 100), Stored("demo", 1, 4, 200)])


def test_a_tasks_message_counts_its_rows_and_travels() -> None:
    assert STORED.rows == 7
    assert pickle.loads(pickle.dumps(STORED)) == STORED


@pytest.mark.parametrize("again", ["none", "all"])
def test_an_abort_says_what_is_stored_and_what_a_second_try_would_store(again: str) -> None:
    text = aborted("batch 3", [STORED, None, None], again)
    assert text.startswith("batch 3 failed: 7 rows of 1 tasks are stored, and possibly")
    assert "some of 2 other tasks" in text
    assert f"stores {again} of them twice" in text


def test_overwriting_is_refused_before_anything_is_asked() -> None:
    options = write_options({"url": "http://nowhere:1", "key": "a:b", "topic": "t"})
    schema = types.StructType([types.StructField("value", types.StringType())])
    with pytest.raises(ConfigError, match="a topic cannot be overwritten"):
        TalosWriter(options, schema, overwrite=True)
