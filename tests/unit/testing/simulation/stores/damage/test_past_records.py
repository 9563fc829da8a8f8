"""Records go back by changes, all of them or one alone."""

import pytest

from opentalos.adapters.memory.storage import StoredRecord
from opentalos.testing.simulation.stores.damage.past_records import PastRecords
from opentalos.testing.simulation.stores.stored_logs import WatchedRecords


@pytest.fixture
def records() -> WatchedRecords:
    return WatchedRecords()


@pytest.fixture
def past(records: WatchedRecords) -> PastRecords:
    past = PastRecords(records)
    for path, value in (("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", b"2")):
        put(records, path, value)
    return past


def put(records: WatchedRecords, path: str, value: bytes, owner: object = None) -> None:
    records.records[path] = StoredRecord(records.record(value, 1), owner)
    records.record_changed(path)


def values(records: WatchedRecords) -> dict[str, bytes]:
    return {path: stored.record.value for path, stored in records.records.items()}


def test_the_last_changes_of_all_are_undone(records: WatchedRecords, past: PastRecords) -> None:
    assert past.undo(3) == {"a": b"2", "b": b"2"}
    assert values(records) == {"a": b"1"}


def test_one_record_alone_goes_back(records: WatchedRecords, past: PastRecords) -> None:
    assert past.undo(1, "a") == {"a": b"2"}
    assert values(records) == {"a": b"1", "b": b"2"}
    assert past.undo(1) == {"b": b"2"}
    assert values(records) == {"a": b"1", "b": b"1"}


def test_a_record_that_is_as_before_is_not_older(
    records: WatchedRecords, past: PastRecords
) -> None:
    put(records, "a", b"3")
    put(records, "a", b"2")
    assert past.undo(2) == {}


def test_what_an_owner_has_does_not_go_back(records: WatchedRecords, past: PastRecords) -> None:
    put(records, "owned", b"1", owner=object())
    assert past.undo(1) == {"b": b"2"}
    assert values(records)["owned"] == b"1"
