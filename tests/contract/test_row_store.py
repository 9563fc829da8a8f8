"""The contract of RowStore, sentence by sentence, on every adapter."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from itertools import product

import pytest
from tests.contract.mutations import one, put, remove
from tests.contract.openers import LOSING_ROW_STORES, ROW_STORES, Place, Storage, params_of

from opentalos.model.errors import (
    NotFound,
    OutcomeUnknown,
    RequestError,
    TalosError,
    VersionConflict,
)
from opentalos.ports.row_store import ABSENT, FamilyName, Row, RowMutation, RowStore

PENDING = FamilyName.PENDING


@pytest.fixture(params=params_of(ROW_STORES))
async def storage(request: pytest.FixtureRequest, place: Place) -> AsyncIterator[Storage[RowStore]]:
    async with ROW_STORES[request.param](place) as opened:
        yield opened


@pytest.fixture
def table() -> str:
    """A table that no other case uses."""
    return f"case-{uuid.uuid4().hex}"


@pytest.fixture
async def store(storage: Storage[RowStore], table: str) -> RowStore:
    client = await storage.client()
    await client.open_table(table)
    return client


@pytest.fixture
async def other(storage: Storage[RowStore], table: str) -> RowStore:
    """A second client of the same storage."""
    client = await storage.client()
    await client.open_table(table)
    return client


# --- tables ---------------------------------------------------------------------------------------


async def test_open_table_is_idempotent_and_keeps_rows(
    store: RowStore, other: RowStore, table: str
) -> None:
    await store.mutate(table, put(b"k", {b"c": b"v"}))
    for client in (store, other):
        await client.open_table(table, splits=[b"m"])
    assert await one(other, table, b"k") == Row(b"k", 1, {b"c": b"v"})


async def test_a_table_that_was_not_opened_is_not_found(store: RowStore, table: str) -> None:
    unknown = f"{table}-unknown"
    for call in (
        store.get(unknown, [b"k"]),
        store.mutate(unknown, put(b"k")),
        store.mutate_many(unknown, [put(b"k")]),
        store.scan(unknown, b"", b"", limit=1),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_dropped_table_is_gone_with_its_rows(store: RowStore, table: str) -> None:
    await store.mutate(table, put(b"k", {b"c": b"v"}))
    await store.drop_table(table)
    await store.drop_table(table)
    with pytest.raises(NotFound):
        await one(store, table, b"k")
    await store.open_table(table)
    assert await one(store, table, b"k") is None
    assert await store.scan(table, b"", b"", limit=10) == []


async def test_splits_do_not_show(storage: Storage[RowStore], table: str) -> None:
    client = await storage.client()
    await client.open_table(f"{table}-split", splits=[b"b", b"m", b"x"])
    keys = [b"a", b"b", b"c", b"m", b"z"]
    for key in keys:
        await client.mutate(f"{table}-split", put(key, {b"c": key}))
    rows = await client.scan(f"{table}-split", b"", b"", limit=10)
    assert [row.key for row in rows] == keys


async def test_tables_do_not_mix(store: RowStore, table: str) -> None:
    await store.open_table(f"{table}-2")
    await store.mutate(table, put(b"k", {b"c": b"1"}))
    await store.mutate(f"{table}-2", put(b"k", {b"c": b"2"}))
    assert await one(store, table, b"k") == Row(b"k", 1, {b"c": b"1"})
    await store.drop_table(f"{table}-2")
    assert await one(store, table, b"k") == Row(b"k", 1, {b"c": b"1"})


# --- mutate and get -------------------------------------------------------------------------------


async def test_a_row_holds_cells_of_two_families(
    store: RowStore, other: RowStore, table: str
) -> None:
    version = await store.mutate(table, put(b"k", {b"a": b"1", b"b": b""}, pending={b"p": b"2"}))
    assert version > 0
    assert await one(other, table, b"k") == Row(b"k", version, {b"a": b"1", b"b": b""})
    assert await one(other, table, b"k", PENDING) == Row(b"k", version, {b"p": b"2"})


async def test_a_mutation_changes_only_the_cells_it_names(store: RowStore, table: str) -> None:
    first = await store.mutate(
        table, put(b"k", {b"a": b"1", b"b": b"2"}, pending={b"p": b"3", b"q": b"4"})
    )
    second = await store.mutate(
        table, put(b"k", {b"b": b"new", b"c": b"5"}, expected=first, pending={b"p": None})
    )
    assert second > first
    assert await one(store, table, b"k") == Row(
        b"k", second, {b"a": b"1", b"b": b"new", b"c": b"5"}
    )
    assert await one(store, table, b"k", PENDING) == Row(b"k", second, {b"q": b"4"})


async def test_removing_pending_cells_alone_keeps_the_version(
    store: RowStore, other: RowStore, table: str
) -> None:
    first = put(b"k", {b"a": b"1"}, pending={b"p": b"2", b"q": b"3", b"r": b"4"})
    version = await store.mutate(table, first)
    clear = put(b"k", expected=version, pending={b"p": None, b"never": None})
    for _ in range(2):
        assert await store.mutate(table, clear) == version
        assert await one(other, table, b"k", PENDING) == Row(
            b"k", version, {b"q": b"3", b"r": b"4"}
        )
    assert await store.mutate(table, first) == version  # still the row's last write
    assert await one(other, table, b"k") == Row(b"k", version, {b"a": b"1"})
    assert await store.mutate_many(
        table, [put(b"k", expected=version, pending={b"q": None, b"r": None})]
    ) == [version]
    assert not await store.scan(table, b"", b"", limit=9, family=PENDING)
    later = await store.mutate(table, put(b"k", expected=version, pending={b"p": b"5"}))
    assert later > version
    with pytest.raises(VersionConflict):
        await store.mutate(table, clear)
    with pytest.raises(VersionConflict):
        await store.mutate(table, put(b"absent", expected=1, pending={b"p": None}))
    assert await one(other, table, b"k", PENDING) == Row(b"k", later, {b"p": b"5"})
    both = put(b"k", expected=later, pending={b"p": None, b"empty": b""})
    assert await store.mutate(table, both) > later


async def test_removing_every_cell_leaves_the_row(store: RowStore, table: str) -> None:
    first = await store.mutate(table, put(b"k", {b"a": b"1"}))
    second = await store.mutate(table, put(b"k", {b"a": None, b"never": None}, expected=first))
    assert await one(store, table, b"k") == Row(b"k", second, {})
    assert await store.mutate(table, put(b"k", {b"a": b"2"}, expected=second)) > second


async def test_get_answers_in_the_order_asked(store: RowStore, other: RowStore, table: str) -> None:
    for key in (b"a", b"b", b"c"):
        await store.mutate(table, put(key, {b"k": key}))
    rows = await other.get(table, [b"c", b"x", b"a", b"c"])
    assert [row.key if row else None for row in rows] == [b"c", None, b"a", b"c"]
    assert await other.get(table, []) == []


async def test_absent_means_that_the_row_must_not_exist(
    store: RowStore, other: RowStore, table: str
) -> None:
    version = await store.mutate(table, put(b"k", {b"c": b"1"}))
    with pytest.raises(VersionConflict):
        await other.mutate(table, put(b"k", {b"c": b"2"}))
    assert await one(store, table, b"k") == Row(b"k", version, {b"c": b"1"})


async def test_another_version_conflicts_and_changes_nothing(
    store: RowStore, other: RowStore, table: str
) -> None:
    first = await store.mutate(table, put(b"k", {b"c": b"1"}))
    second = await store.mutate(table, put(b"k", {b"c": b"2"}, expected=first))
    for stale in (first, second + 1):
        with pytest.raises(VersionConflict):
            await other.mutate(table, put(b"k", {b"c": b"3"}, expected=stale, pending={b"p": b"x"}))
        with pytest.raises(VersionConflict):
            await other.mutate(table, remove(b"k", stale))
    with pytest.raises(VersionConflict):
        await other.mutate(table, put(b"never", {b"c": b"1"}, expected=1))
    assert await one(store, table, b"k") == Row(b"k", second, {b"c": b"2"})
    assert await one(store, table, b"k", PENDING) == Row(b"k", second, {})


async def test_of_many_writers_at_one_version_one_wins(
    store: RowStore, other: RowStore, table: str
) -> None:
    results = await asyncio.gather(
        *(
            client.mutate(table, put(b"k", {b"c": b"%d" % number}))
            for number, client in enumerate([store, other] * 8)
        ),
        return_exceptions=True,
    )
    won = [number for number, result in enumerate(results) if isinstance(result, int)]
    lost = [type(result) for result in results if not isinstance(result, int)]
    assert len(won) == 1
    assert set(lost) == {VersionConflict}
    row = await one(store, table, b"k")
    assert row is not None
    assert row.cells == {b"c": b"%d" % won[0]}


async def test_any_bytes_are_kept(store: RowStore, table: str) -> None:
    every = bytes(range(256))
    version = await store.mutate(table, put(every, {every: every * 100, b"\0": b"\xff" * 3}))
    assert await one(store, table, every) == Row(
        every, version, {every: every * 100, b"\0": b"\xff" * 3}
    )


async def test_a_mutation_that_can_never_be_right_is_refused(store: RowStore, table: str) -> None:
    for wrong in (
        put(b"", {b"c": b"v"}),
        RowMutation(key=b"k", expected=ABSENT, write_id=b""),
        put(b"k", {b"c": b"v"}, write_id=b"x" * 17),
        put(b"k", {b"c": b"v"}, expected=-1),
    ):
        with pytest.raises(RequestError):
            await store.mutate(table, wrong)
    assert await store.scan(table, b"", b"", limit=10) == []


# --- write ids ------------------------------------------------------------------------------------


async def test_an_identical_repeat_is_harmless(
    store: RowStore, other: RowStore, table: str
) -> None:
    first = put(b"k", {b"c": b"1"}, pending={b"p": b"1"})
    version = await store.mutate(table, first)
    for client in (store, other):
        assert await client.mutate(table, first) == version
    second = put(b"k", {b"c": b"2"}, expected=version, pending={b"p": None})
    newer = await store.mutate(table, second)
    assert [await other.mutate(table, second) for _ in range(2)] == [newer] * 2
    assert await one(store, table, b"k") == Row(b"k", newer, {b"c": b"2"})
    assert await one(store, table, b"k", PENDING) == Row(b"k", newer, {})


async def test_a_repeat_after_another_write_conflicts(
    store: RowStore, other: RowStore, table: str
) -> None:
    first = put(b"k", {b"c": b"1"})
    version = await store.mutate(table, first)
    newer = await other.mutate(table, put(b"k", {b"c": b"2"}, expected=version))
    with pytest.raises(VersionConflict):
        await store.mutate(table, first)
    assert await one(store, table, b"k") == Row(b"k", newer, {b"c": b"2"})


async def test_a_repeated_removal_is_harmless(store: RowStore, other: RowStore, table: str) -> None:
    version = await store.mutate(table, put(b"k", {b"c": b"1"}))
    removal = remove(b"k", version)
    gone = await store.mutate(table, removal)
    assert gone > version
    assert await other.mutate(table, removal) == gone
    assert await one(store, table, b"k") is None


async def test_of_identical_writes_at_once_all_succeed_with_one_version(
    store: RowStore, other: RowStore, table: str
) -> None:
    write = put(b"k", {b"c": b"1"})
    versions = await asyncio.gather(*(client.mutate(table, write) for client in (store, other) * 4))
    assert len(set(versions)) == 1


@pytest.mark.parametrize("name", params_of(LOSING_ROW_STORES))
async def test_an_unknown_write_is_resolved_by_repeating_it(
    name: str, place: Place, table: str
) -> None:
    async with LOSING_ROW_STORES[name](place) as storage:
        lose_reply = storage.lose_reply
        assert lose_reply is not None
        store = await storage.client()
        await store.open_table(table)
        version = ABSENT
        for number in range(3):
            write = put(b"k", {b"c": b"%d" % number}, expected=version)
            lose_reply()
            with contextlib.suppress(OutcomeUnknown):
                await store.mutate(table, write)
            version = await store.mutate(table, write)
            assert await one(store, table, b"k") == Row(b"k", version, {b"c": b"%d" % number})
        lose_reply()
        writes = [put(b"%d" % number, {b"c": b"v"}) for number in range(5)]
        with contextlib.suppress(OutcomeUnknown):
            await store.mutate_many(table, writes)
        again = await store.mutate_many(table, writes)
        assert all(isinstance(outcome, int) for outcome in again)


# --- removal --------------------------------------------------------------------------------------


async def test_a_removed_row_is_absent_in_both_families(
    store: RowStore, other: RowStore, table: str
) -> None:
    version = await store.mutate(table, put(b"k", {b"c": b"1"}, pending={b"p": b"1"}))
    await store.mutate(table, remove(b"k", version))
    for family in FamilyName:
        assert await one(other, table, b"k", family) is None
        assert await other.scan(table, b"", b"", limit=10, family=family) == []


async def test_a_row_made_again_gets_a_larger_version_and_no_old_cells(
    store: RowStore, other: RowStore, table: str
) -> None:
    version = await store.mutate(table, put(b"k", {b"old": b"1"}, pending={b"old": b"1"}))
    gone = await store.mutate(table, remove(b"k", version))
    with pytest.raises(VersionConflict):
        await other.mutate(table, put(b"k", {b"c": b"2"}, expected=gone))
    again = await other.mutate(table, put(b"k", {b"new": b"2"}))
    assert again > gone > version
    assert await one(store, table, b"k") == Row(b"k", again, {b"new": b"2"})
    assert await one(store, table, b"k", PENDING) == Row(b"k", again, {})


# --- mutate_many ----------------------------------------------------------------------------------


async def test_mutate_many_answers_each_row_by_itself(
    store: RowStore, other: RowStore, table: str
) -> None:
    present = await store.mutate(table, put(b"b", {b"c": b"old"}))
    repeat = put(b"r", {b"c": b"1"})
    repeated = await store.mutate(table, repeat)
    outcomes = await other.mutate_many(
        table,
        [
            put(b"z", {b"c": b"new"}, pending={b"p": b"new"}),
            put(b"b", {b"c": b"lost"}),
            repeat,
            put(b"a", {b"c": b"new"}),
            remove(b"x", 7),
        ],
    )
    assert isinstance(outcomes[0], int)
    assert isinstance(outcomes[1], VersionConflict)
    assert outcomes[2] == repeated
    assert isinstance(outcomes[3], int)
    assert isinstance(outcomes[4], VersionConflict)
    rows = await store.scan(table, b"", b"", limit=10)
    assert [(row.key, row.cells[b"c"]) for row in rows] == [
        (b"a", b"new"),
        (b"b", b"old"),
        (b"r", b"1"),
        (b"z", b"new"),
    ]
    assert rows[1].version == present


async def test_mutate_many_of_nothing_is_nothing(store: RowStore, table: str) -> None:
    assert await store.mutate_many(table, []) == []


async def test_mutate_many_refuses_two_mutations_of_one_row(store: RowStore, table: str) -> None:
    with pytest.raises(RequestError):
        await store.mutate_many(table, [put(b"a"), put(b"b"), put(b"a")])
    assert await store.scan(table, b"", b"", limit=10) == []


async def test_many_rows_in_one_call(store: RowStore, other: RowStore, table: str) -> None:
    mutations = [put(b"%04d" % number, {b"c": b"%d" % number}) for number in range(300)]
    assert all(isinstance(outcome, int) for outcome in await store.mutate_many(table, mutations))
    rows = await other.scan(table, b"", b"", limit=1000)
    assert [row.key for row in rows] == [b"%04d" % number for number in range(300)]


# --- scan -----------------------------------------------------------------------------------------

KEYS = [b"\0", b"a", b"a\0", b"aa", b"b", b"b\xff", b"c", b"\xff", b"\xff\xff"]


RANGES = (
    (b"", b""),
    (b"a", b"c"),
    (b"a", b"a\0"),
    (b"a", b"a"),
    (b"b", b"a"),
    (b"", b"a"),
    (b"c", b""),
    (b"\xff", b""),
    (b"ab", b"b\xff\0"),
)


async def test_scan_covers_start_to_before_stop(
    store: RowStore, other: RowStore, table: str
) -> None:
    await store.mutate_many(table, [put(key, {b"c": key}) for key in reversed(KEYS)])
    wrong = {}
    for (start, stop), reverse, limit in product(RANGES, (False, True), (1, 2, 100)):
        covered = sorted(
            (key for key in KEYS if key >= start and (not stop or key < stop)), reverse=reverse
        )
        rows = await other.scan(table, start, stop, limit=limit, reverse=reverse)
        found = [(row.key, row.cells) for row in rows]
        if found != [(key, {b"c": key}) for key in covered[:limit]]:
            wrong[start, stop, reverse, limit] = found
    assert wrong == {}


async def test_scan_shows_the_family_asked_for(store: RowStore, table: str) -> None:
    await store.mutate(table, put(b"a", {b"c": b"1"}, pending={b"p": b"2"}))
    await store.mutate(table, put(b"b", {b"c": b"3"}))
    data = await store.scan(table, b"", b"", limit=10)
    pending = await store.scan(table, b"", b"", limit=10, family=PENDING)
    assert [row.cells for row in data] == [{b"c": b"1"}, {b"c": b"3"}]
    assert [row.cells for row in pending] == [{b"p": b"2"}]


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_scan_of_pending_cells_gives_only_rows_that_have_some(
    store: RowStore, other: RowStore, table: str, reverse: bool
) -> None:
    keys = [b"%03d" % number for number in range(200)]
    versions = await store.mutate_many(
        table,
        [put(key, {b"c": b"v"}, pending={b"p": key} if key[2:] != b"0" else {}) for key in keys],
    )
    done = [
        put(key, expected=1, pending={b"p": None}) for key in keys if key[1:] not in (b"01", b"40")
    ]
    assert set(versions) == {1}
    assert set(await store.mutate_many(table, done[:-1])) == {1}
    await store.mutate(table, remove(keys[-1], 1))
    expected = [Row(key, 1, {b"p": key}) for key in (b"001", b"101")][:: -1 if reverse else 1]
    for limit in (1, 2, 100):
        rows = await other.scan(table, b"", b"", limit=limit, reverse=reverse, family=PENDING)
        assert rows == expected[:limit]
    assert not await other.scan(table, b"002", b"101", limit=9, reverse=reverse, family=PENDING)
    version = await other.mutate(table, put(b"100", expected=1, pending={b"q": b"again"}))
    rows = await store.scan(table, b"082", b"101", limit=9, reverse=reverse, family=PENDING)
    assert rows == [Row(b"100", version, {b"q": b"again"})]


async def test_scan_skips_removed_rows_without_spending_the_limit(
    store: RowStore, table: str
) -> None:
    for number in range(6):
        version = await store.mutate(table, put(b"%d" % number, {b"c": b"v"}))
        if number % 2:
            await store.mutate(table, remove(b"%d" % number, version))
    rows = await store.scan(table, b"", b"", limit=3)
    assert [row.key for row in rows] == [b"0", b"2", b"4"]


async def test_scan_needs_a_positive_limit(store: RowStore, table: str) -> None:
    for limit in (0, -1):
        with pytest.raises(RequestError):
            await store.scan(table, b"", b"", limit=limit)


# --- close ----------------------------------------------------------------------------------------


async def test_a_reopened_client_sees_what_was_written(
    storage: Storage[RowStore], table: str
) -> None:
    first = await storage.client()
    await first.open_table(table)
    version = await first.mutate(table, put(b"k", {b"c": b"1"}, pending={b"p": b"2"}))
    gone = await first.mutate(table, put(b"gone", {b"c": b"1"}))
    gone = await first.mutate(table, remove(b"gone", gone))
    await first.close()
    second = await storage.client()
    await second.open_table(table)
    assert await one(second, table, b"k") == Row(b"k", version, {b"c": b"1"})
    assert await one(second, table, b"k", PENDING) == Row(b"k", version, {b"p": b"2"})
    assert await one(second, table, b"gone") is None
    assert await second.mutate(table, put(b"gone", {b"c": b"2"})) > gone


async def test_a_closed_store_refuses_calls(storage: Storage[RowStore], table: str) -> None:
    store = await storage.client()
    await store.open_table(table)
    await store.close()
    await store.close()
    with pytest.raises(TalosError):
        await store.get(table, [b"k"])
    with pytest.raises(TalosError):
        await store.mutate(table, put(b"k", {b"c": b"v"}))
