"""The JSON offset of a batch, and what it stands for."""

import json

import pytest

from opentalos.model.errors import RequestError
from opentalos.pipelines.datasource.source.batch_range import BatchRange, ReadRange

RESOURCE = "owner#topic#uuid"
BATCH = BatchRange(
    begin={RESOURCE: {0: 5, 2: 0, 10: 7}}, end={RESOURCE: {0: 9, 2: 0, 10: 8}}, tasks=3, skipped=4
)


def test_a_batch_round_trips_through_its_json() -> None:
    assert BatchRange.parse(json.loads(json.dumps(BATCH.as_json()))) == BATCH


def test_the_same_batch_has_the_same_text_in_whatever_order_it_was_found() -> None:
    other = BatchRange(
        begin={RESOURCE: {10: 7, 0: 5, 2: 0}},
        end={RESOURCE: {2: 0, 10: 8, 0: 9}},
        tasks=3,
        skipped=4,
    )
    assert json.dumps(other.as_json()) == json.dumps(BATCH.as_json())


def test_slices_go_by_the_number_of_the_partition_and_are_never_empty() -> None:
    assert BATCH.ranges == [ReadRange(RESOURCE, 0, 5, 9), ReadRange(RESOURCE, 10, 7, 8)]


def test_an_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(RequestError, match="offset of version 2"):
        BatchRange.parse(BATCH.as_json() | {"v": 2})


@pytest.mark.parametrize(
    "damage",
    [
        {"begin": {}},
        {"begin": {RESOURCE: {"0": 5}}},
        {"end": {RESOURCE: {"zero": 1}}},
        {"end": [1]},
        {"tasks": None},
    ],
)
def test_a_damaged_offset_is_refused(damage: dict[str, object]) -> None:
    with pytest.raises(RequestError, match="damaged offset"):
        BatchRange.parse(BATCH.as_json() | damage)
