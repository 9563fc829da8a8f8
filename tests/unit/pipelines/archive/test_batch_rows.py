"""What counts as an archived batch."""

import json

import pytest

from opentalos.model.errors import RequestError
from opentalos.pipelines.archive.batch_rows import WrittenRows, check_rows, logged_batch
from opentalos.pipelines.datasource.source.batch_range import BatchRange
from opentalos.pipelines.lake.written_rows import RowsMissing

BATCH = BatchRange(
    begin={"o#a#1": {0: 5, 1: 0}, "o#b#2": {0: 7}},
    end={"o#a#1": {0: 15, 1: 3}, "o#b#2": {0: 7}},
    tasks=2,
)
A0, A1 = WrittenRows("a", 0, 10, 5, 14), WrittenRows("a", 1, 3, 0, 2)


def test_the_rows_of_all_offsets_are_the_batch() -> None:
    assert check_rows(BATCH, [A1, A0], may_lack=False) == 0


@pytest.mark.parametrize("written", [[], [A0], [A0, A1._replace(rows=2, last=1)]])
def test_a_batch_of_which_rows_are_not_there_is_refused(written: list[WrittenRows]) -> None:
    with pytest.raises(RowsMissing, match="of 13 messages; give a path on which all executors"):
        check_rows(BATCH, written, may_lack=False)


def test_messages_that_were_gone_are_counted_where_they_may_be() -> None:
    assert check_rows(BATCH, [A0], may_lack=True) == 3
    assert check_rows(BATCH, [], may_lack=True) == 13


@pytest.mark.parametrize(
    "strange",
    [
        WrittenRows("b", 0, 1, 7, 7),
        WrittenRows("c", 0, 1, 0, 0),
        A1._replace(rows=4),
        A1._replace(last=3),
        A1._replace(rows=2, first=-1),
    ],
)
def test_rows_that_the_batch_did_not_read_are_refused(strange: WrittenRows) -> None:
    with pytest.raises(RowsMissing, match="which the batch did not read"):
        check_rows(BATCH, [A0, strange], may_lack=True)


def test_the_offsets_are_found_in_a_log_of_spark() -> None:
    offset = json.dumps(BATCH.as_json())
    assert logged_batch(f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{offset}\n') == BATCH
    with pytest.raises(RequestError, match="has no offsets of the source"):
        logged_batch('v1\n{"batchWatermarkMs":0}\n-\n')
