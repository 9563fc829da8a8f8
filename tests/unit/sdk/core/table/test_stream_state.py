"""A replica is the table, whatever of its stream comes again, and says where that cannot be."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.sdk.stream_model import (
    BEGIN_MS,
    SCHEMA,
    TTL,
    ModelTable,
    key_of,
    sorted_rows,
    typed,
)

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.errors import NotSupported, ValidationFailed
from opentalos.sdk.core.table.stream_state import Replica
from opentalos.sdk.errors import ChangeContradicts, ChangeMissing

VIEWS = pytest.mark.parametrize("view", [StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE])
SAME = settings(  # the same examples on every machine, however slow
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(-9, 9), st.text("xy", max_size=2)),
    st.tuples(st.just("increment"), KEYS, st.integers(-9, 9)),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("remove"), KEYS, st.sampled_from(["n", "text"])),
    st.tuples(st.just("wait"), st.integers(0, 3_000)),
)


def do(table: ModelTable, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", key, n, text):
            table.put(key, n=n, **({"text": text} if text else {}))
        case ("increment", key, amount):
            table.increment(key, amount)
        case ("remove", key, *columns):
            table.remove(key, *columns)
        case ("wait", time_ms):
            table.now_ms += time_ms


def with_resends(draw: st.DrawFn, changes: list[Change]) -> Iterator[Change]:
    """The changes of each row in order, rows mixed, with runs of what was sent before among them:
    a run begins anywhere in its row's past and continues in order."""
    rows: dict[str, list[Change]] = {}
    for change in changes:
        rows.setdefault(key_of(change), []).append(change)
    sent = dict.fromkeys(rows, 0)
    while open_rows := [key for key in rows if sent[key] < len(rows[key])]:
        key = draw(st.sampled_from(open_rows))
        back = draw(st.integers(0, min(3, sent[key])))
        run = rows[key][sent[key] - back : sent[key] + 1]
        yield from run
        sent[key] += 1


def followed(table: ModelTable, view: StreamView, changes: Iterator[Change]) -> Replica:
    replica = Replica(table.schema, view)
    for change in changes:
        replica.apply(decoded(change, view))
    return replica


def decoded(change: Change, view: StreamView) -> Change:
    """What a decoded message of this view has."""
    if view is StreamView.MUTATE_LOG:
        return change._replace(image={})
    kind = ChangeKind.DELETE if change.row_deleted else ChangeKind.PUT
    return change._replace(kind=kind, columns={}, amounts={})


@VIEWS
@SAME
@given(data=st.data())
def test_any_resends_give_the_table(view: StreamView, data: st.DataObject) -> None:
    table = ModelTable(data.draw(st.sampled_from([SCHEMA, TTL])))
    for step in data.draw(st.lists(STEPS, max_size=20)):
        do(table, step)

    @st.composite
    def streams(draw: st.DrawFn) -> list[Change]:
        return list(with_resends(draw, table.changes))

    stream = data.draw(streams())
    replica = followed(table, view, iter(stream))
    assert sorted_rows(replica.rows(table.now_ms)) == table.records()
    assert replica.counters.applied == len(table.changes)
    assert replica.counters.repeated == len(stream) - len(table.changes)
    assert replica.counters.late == 0


@VIEWS
@SAME
@given(steps=st.lists(STEPS, max_size=20), later=st.lists(STEPS, max_size=10), data=st.data())
def test_a_scan_at_any_moment_and_the_stream_give_the_table(
    view: StreamView, steps: list[Any], later: list[Any], data: st.DataObject
) -> None:
    """The mark is older than the scan, which may have seen any part of what follows the mark."""
    table = ModelTable(data.draw(st.sampled_from([SCHEMA, TTL])))
    for step in steps:
        do(table, step)
    begin = len(table.changes)
    replica = Replica(table.schema, view)
    scanned_before = data.draw(st.integers(0, len(later)))
    for number, step in enumerate(later):
        if number == scanned_before:
            load(replica, table)
        do(table, step)
    if scanned_before == len(later):
        load(replica, table)
    resent = data.draw(st.integers(0, begin))
    for change in (*table.changes[resent:begin], *table.changes[begin:]):
        replica.apply(decoded(change, view))
    assert sorted_rows(replica.rows(table.now_ms)) == table.records()
    assert replica.counters.repeated >= begin - resent
    table.put("a", n=1)
    for last in (table.changes[-1], table.increment("a", 5), table.put("b", n=1)):
        assert replica.apply(decoded(last, view))
    assert sorted_rows(replica.rows(table.now_ms)) == table.records()


def load(replica: Replica, table: ModelTable) -> None:
    """Rows as a scan returns them, with removed and expired ones."""
    for state in table.states():
        replica.restore(state)


@VIEWS
def test_a_missing_change_is_named_and_nothing_is_applied(view: StreamView) -> None:
    table = ModelTable()
    changes = [table.put("a", n=1), table.put("a", n=2), table.put("a", n=3)]
    replica = Replica(SCHEMA, view)
    replica.apply(decoded(changes[0], view))
    with pytest.raises(ChangeMissing, match="change 3 of row id='a': changes are missing after"):
        replica.apply(decoded(changes[2], view))
    assert replica.get({"id": "a"}) == {"id": "a", "n": 1}
    assert replica.apply(decoded(changes[1], view))
    assert replica.apply(decoded(changes[2], view))


def test_the_first_change_of_a_complete_stream_is_the_rows_first() -> None:
    table = ModelTable()
    table.put("a", n=1)
    second = table.put("a", text="x")
    with pytest.raises(ChangeMissing, match="changes are missing after change 0"):
        Replica(SCHEMA, StreamView.MUTATE_LOG).apply(second)
    late = Replica(SCHEMA, StreamView.RECORD_IMAGE, complete=False)
    assert late.apply(decoded(second, StreamView.RECORD_IMAGE))
    assert late.get({"id": "a"}) == {"id": "a", "n": 1, "text": "x"}
    with pytest.raises(ChangeMissing):
        late.apply(second._replace(sequence=4, timestamp_ms=second.timestamp_ms + 9))


def test_an_increment_that_does_not_add_up_is_named() -> None:
    table = ModelTable()
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    replica.apply(table.put("a", n=40))
    wrong = table.increment("a", 2)._replace(amounts=typed(n=3))
    with pytest.raises(ChangeContradicts, match=r"change 2 of row id='a' adds 3 to n = 40 "):
        replica.apply(wrong)
    assert replica.get({"id": "a"}) == {"id": "a", "n": 40}


def test_an_increment_after_a_scan_is_verified_and_one_in_it_repeated() -> None:
    table = ModelTable()
    table.put("a", n=40)
    seen = table.increment("a", 1)
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    load(replica, table)
    assert not replica.apply(seen)
    wrong = table.increment("a", 1)
    with pytest.raises(ChangeContradicts):
        replica.apply(wrong._replace(amounts=typed(n=7)))
    with pytest.raises(ChangeMissing):
        replica.apply(table.increment("a", 1))
    assert replica.apply(wrong)


def test_a_change_is_not_verified_if_those_before_it_are_not_known() -> None:
    table = ModelTable()
    table.put("a", n=40)
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG, complete=False)
    assert replica.apply(table.increment("a", 1))
    assert replica.get({"id": "a"}) == {"id": "a", "n": 41}


def test_numbers_and_times_that_contradict_each_other_are_refused() -> None:
    table = ModelTable()
    first, second = table.put("a", n=1), table.put("a", n=2)
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    replica.apply(first)
    for wrong in (
        second._replace(timestamp_ms=first.timestamp_ms),
        second._replace(timestamp_ms=first.timestamp_ms - 1),
        first._replace(timestamp_ms=second.timestamp_ms),
    ):
        with pytest.raises(ChangeContradicts, match="of row id='a' has the time"):
            replica.apply(wrong)
    assert replica.apply(second)


def test_columns_of_no_row_cannot_be_removed() -> None:
    table = ModelTable()
    table.put("a", n=1)
    wrong = table.remove("a", "n")
    assert wrong is not None
    with pytest.raises(ChangeContradicts, match="removes columns of a row that does not exist"):
        Replica(SCHEMA, StreamView.MUTATE_LOG).apply(wrong._replace(sequence=1))


def test_without_numbers_the_time_identifies_repeats() -> None:
    table = ModelTable()
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    bare = [item._replace(sequence=0) for item in (table.put("a", n=1), table.increment("a", 1))]
    for change in (*bare, *bare):
        replica.apply(change)
    assert replica.get({"id": "a"}) == {"id": "a", "n": 2}
    assert (replica.counters.applied, replica.counters.repeated) == (2, 2)


def test_a_change_below_a_resolved_mark_is_late() -> None:
    table = ModelTable()
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    first, second = table.put("a", n=1), table.put("b", n=2)
    replica.apply(first)
    replica.resolved(BEGIN_MS)
    replica.apply(first)  # a resend is not late
    assert replica.counters.late == 0
    replica.apply(second)
    assert replica.counters.late == 1
    assert len(list(replica.rows())) == 2


def test_what_outlived_its_time_is_gone_and_its_columns_do_not_come_back() -> None:
    table = ModelTable(TTL)
    replica = Replica(TTL, StreamView.MUTATE_LOG)
    replica.apply(table.put("a", n=1, text="old"))
    assert replica.get({"id": "a"}, BEGIN_MS + 1_999) is not None
    assert replica.get({"id": "a"}, BEGIN_MS + 2_000) is None
    assert list(replica.rows(BEGIN_MS + 2_000)) == []
    table.now_ms += 2_000
    replica.apply(table.put("a", n=2))
    assert replica.get({"id": "a"}, table.now_ms) == {"id": "a", "n": 2}


def test_what_a_replica_cannot_follow_is_refused() -> None:
    with pytest.raises(NotSupported, match="KEYS_ONLY"):
        Replica(SCHEMA, StreamView.KEYS_ONLY)
    with pytest.raises(ValidationFailed, match="no column 'other'"):
        Replica(SCHEMA, StreamView.MUTATE_LOG).get({"other": 1})


def test_a_replica_resumes_from_its_saved_state() -> None:
    table = ModelTable()
    first = Replica(SCHEMA, StreamView.MUTATE_LOG)
    old = [table.put("a", n=1), table.put("b", n=1), table.remove("b")]
    for change in old:
        assert change is not None
        first.apply(change)
    second = Replica(SCHEMA, StreamView.MUTATE_LOG)
    for state in first.states():
        second.restore(state)
    for change in (*old, table.increment("a", 1), table.put("b", n=9)):
        assert change is not None
        second.apply(change)
    assert sorted_rows(second.rows()) == table.records()
    assert second.counters.repeated == 3


def test_null_is_not_a_value() -> None:
    table = ModelTable()
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    replica.apply(table.put("a", n=1, text="x"))
    replica.apply(table.put("a", text=None))
    assert replica.get({"id": "a"}) == {"id": "a", "n": 1}


@VIEWS
def test_a_row_that_the_table_had_forgotten_starts_again(view: StreamView) -> None:
    table = ModelTable()
    table.put("a", n=1, text="old")
    table.remove("a")
    old = [decoded(item, view) for item in table.changes]
    del table.rows["a"]
    table.now_ms += 10_000
    fresh = [decoded(item, view) for item in (table.put("a", n=2), table.put("a", n=3))]
    replica = Replica(SCHEMA, view)
    for change in (*old, fresh[0], *old, *fresh):
        replica.apply(change)
    assert replica.get({"id": "a"}) == {"id": "a", "n": 3}
    assert (replica.counters.applied, replica.counters.repeated) == (4, 3)


def test_a_live_row_does_not_start_again() -> None:
    table = ModelTable()
    replica = Replica(SCHEMA, StreamView.MUTATE_LOG)
    first = table.put("a", n=1)
    replica.apply(first)
    with pytest.raises(ChangeContradicts):
        replica.apply(first._replace(timestamp_ms=first.timestamp_ms + 5))
