"""What the RowStore on HBase does when HBase fails, and when it tidies up."""

import asyncio
import time
from typing import Any

import pytest
from tests.e2e.hbase.conftest import Opener
from tests.waiting import elapse_async, eventually, eventually_async, scale

from opentalos.adapters.hbase import HbaseRowStore, open_hbase_row_store
from opentalos.adapters.hbase.row_store import CELL_BYTES_MAX
from opentalos.backends.hbase import HbaseBackend
from opentalos.model.errors import (
    ConfigError,
    OutcomeUnknown,
    RequestTooLarge,
    StoreUnavailable,
    TalosError,
    VersionConflict,
)
from opentalos.model.limits import HbaseLimits, JvmLimits
from opentalos.ports.row_store import ABSENT, FamilyName, Row, RowMutation

pytestmark = pytest.mark.backend
CALL_S = 5.0
PAUSED_CALL_S = 2.0
LATE_S = 8.0 * scale()  # by which the answer to a call that failed may come after its time
WRITERS = 6
ROWS_PER_WRITE = 20
ROWS = WRITERS // 2 * (ROWS_PER_WRITE + 1)


def put(key: bytes, number: int, expected: int) -> RowMutation:
    return RowMutation(
        key=key,
        expected=expected,
        write_id=b"%x" % time.monotonic_ns(),
        data={b"n": b"%d" % number},
        pending={b"p%d" % number: b"x", b"p%d" % (number - 1): None},
    )


class Load:
    """Writes of many rows by single and batched calls; remembers what was acknowledged."""

    def __init__(self, store: HbaseRowStore, table: str) -> None:
        self._store, self._table = store, table
        self.acked: dict[bytes, int] = {}  # row to the largest number acknowledged
        self.counted: list[int] = []  # of the row that all writers share
        self.unknown = 0  # of that row
        self.longest_s = 0.0
        self.stopping = False

    async def run(self) -> None:
        await asyncio.gather(*(self._write(writer) for writer in range(WRITERS)), self._count())

    async def _write(self, writer: int) -> None:
        keys = [
            b"%d-%d" % (writer, number) for number in range(ROWS_PER_WRITE if writer % 2 else 1)
        ]
        versions = dict.fromkeys(keys, ABSENT)
        number = 0
        while not self.stopping:
            number += 1
            began_s = time.monotonic()
            mutations = [put(key, number, versions[key]) for key in keys]
            if len(mutations) == 1:
                try:
                    outcomes: list[int | TalosError] = [
                        await self._store.mutate(self._table, mutations[0])
                    ]
                except TalosError as error:
                    outcomes = [error]
            else:
                outcomes = list(await self._store.mutate_many(self._table, mutations))
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            for key, outcome in zip(keys, outcomes, strict=True):
                if isinstance(outcome, int):
                    assert outcome > versions[key]
                    versions[key] = outcome
                    self.acked[key] = number
                else:
                    assert isinstance(outcome, OutcomeUnknown | StoreUnavailable)
                    versions[key] = await self._version(key)

    async def _version(self, key: bytes) -> int:
        while True:
            try:
                row = (await self._store.get(self._table, [key]))[0]
            except StoreUnavailable:
                continue
            return row.version if row else ABSENT

    async def _count(self) -> None:
        """Count up in one row; two of them race."""

        async def add() -> None:
            while not self.stopping:
                try:
                    row = (await self._store.get(self._table, [b"shared"]))[0]
                    number = int(row.cells[b"n"]) + 1 if row else 1
                    version = row.version if row else ABSENT
                    await self._store.mutate(self._table, put(b"shared", number, version))
                    self.counted.append(number)
                except (VersionConflict, StoreUnavailable):
                    await elapse_async("the two do not race in lockstep", 0.001)
                except OutcomeUnknown:
                    self.unknown += 1

        await asyncio.gather(add(), add())


async def test_what_was_acknowledged_is_there_after_kill_9(
    hbase: HbaseBackend, opened: Opener, table: str, capfd: pytest.CaptureFixture[str]
) -> None:
    store = await opened(CALL_S)
    await store.open_table(table, splits=[b"2", b"4"])
    load = Load(store, table)
    running = asyncio.ensure_future(load.run())
    await eventually_async(
        "every row is written", lambda: len(load.acked) == ROWS and bool(load.counted)
    )
    hbase.daemon("hbase").kill()
    before = len(load.counted)
    await asyncio.to_thread(hbase.start, print)
    await eventually_async(
        "counting continues", lambda: len(load.counted) >= before + 50 or running.done()
    )
    load.stopping = True
    await running
    keys = list(load.acked)
    assert len(keys) == ROWS
    rows = await store.get(table, keys)
    for key, row in zip(keys, rows, strict=True):
        assert row is not None
        assert int(row.cells[b"n"]) >= load.acked[key]
    pending = await store.get(table, keys, family=FamilyName.PENDING)
    for row, waiting in zip(rows, pending, strict=True):
        assert row is not None
        assert waiting is not None
        number = int(row.cells[b"n"])
        assert waiting.version == row.version
        assert b"p%d" % number in waiting.cells
        assert b"p%d" % (number - 1) not in waiting.cells
    shared = (await store.get(table, [b"shared"]))[0]
    assert shared is not None
    assert len(set(load.counted)) == len(load.counted)
    assert len(load.counted) <= int(shared.cells[b"n"]) <= len(load.counted) + load.unknown
    assert load.longest_s < CALL_S + LATE_S  # the claim is about time
    assert "\tat org.apache" not in capfd.readouterr().err  # errors are reported once, by us


async def test_a_paused_hbase_leaves_writes_unknown_and_a_repeat_resolves_them(
    hbase: HbaseBackend, opened: Opener, table: str
) -> None:
    store = await opened(PAUSED_CALL_S)
    await store.open_table(table)
    version = await store.mutate(table, put(b"a", 1, ABSENT))
    write = put(b"a", 2, version)
    hbase.daemon("hbase").pause()  # not for long, or its region server gives up
    try:
        began_s = time.monotonic()
        written, read, many = await asyncio.gather(
            store.mutate(table, write),
            store.get(table, [b"a"]),
            store.mutate_many(table, [put(b"b", 1, ABSENT)]),
            return_exceptions=True,
        )
        assert time.monotonic() - began_s < PAUSED_CALL_S + LATE_S  # the claim is about time
    finally:
        hbase.daemon("hbase").resume()
    assert isinstance(written, OutcomeUnknown)
    assert isinstance(read, StoreUnavailable)
    assert isinstance(many, list)
    assert isinstance(many[0], OutcomeUnknown | StoreUnavailable)

    async def done() -> int | None:
        try:
            return await store.mutate(table, write)
        except (OutcomeUnknown, StoreUnavailable):
            return None

    repeated = await eventually_async("the repeated write is done", done)
    assert repeated == version + 1
    row = (await store.get(table, [b"a"]))[0]
    assert row == Row(b"a", repeated, {b"n": b"2"})


async def test_removed_cells_and_rows_stay_so_when_hbase_tidies_up(
    opened: Opener, table: str
) -> None:
    store = await opened(10.0)
    await store.open_table(table)
    made = await store.mutate(table, put(b"kept", 1, ABSENT))
    gone = await store.mutate(table, put(b"gone", 1, ABSENT))
    again = await store.mutate(table, put(b"again", 1, ABSENT))
    await rewrite_files(store, table)
    made = await store.mutate(table, put(b"kept", 2, made))  # removes p1, sets p2
    delete = RowMutation(key=b"gone", expected=gone, write_id=b"d", delete=True)
    gone = await store.mutate(table, delete)
    again = await store.mutate(
        table, RowMutation(key=b"again", expected=again, write_id=b"d", delete=True)
    )
    again = await store.mutate(
        table, RowMutation(key=b"again", expected=ABSENT, write_id=b"e", data={b"new": b""})
    )
    for _ in range(2):
        rows = await store.scan(table, b"", b"", limit=10)
        assert rows == [Row(b"again", again, {b"new": b""}), Row(b"kept", made, {b"n": b"2"})]
        pending = await store.scan(table, b"", b"", limit=10, family=FamilyName.PENDING)
        assert pending == [Row(b"kept", made, {b"p2": b"x"})]  # the others have none
        assert await store.mutate(table, delete) == gone
        await rewrite_files(store, table)
    assert await store.mutate(table, put(b"gone", 1, ABSENT)) > gone


async def rewrite_files(store: HbaseRowStore, table: str) -> None:
    """Flush and major compaction: deleted cells and markers are dropped for good."""
    client: Any = store._client

    def tidy() -> None:
        name = client._name(table)
        with client._connection.getAdmin() as admin:
            admin.flush(name)
            before_ms = admin.getLastMajorCompactionTimestamp(name)
            admin.majorCompact(name)

            def is_compacted() -> bool:
                is_newer = admin.getLastMajorCompactionTimestamp(name) > before_ms
                return is_newer and str(admin.getCompactionState(name)) == "NONE"

            eventually("the table is compacted", is_compacted)

    await asyncio.to_thread(tidy)


async def test_a_cell_that_is_too_large_is_refused_by_itself(opened: Opener, table: str) -> None:
    store = await opened(10.0)
    await store.open_table(table)
    large = RowMutation(
        key=b"a", expected=ABSENT, write_id=b"a", data={b"c": bytes(CELL_BYTES_MAX + 1)}
    )
    with pytest.raises(RequestTooLarge):
        await store.mutate(table, large)
    largest = RowMutation(
        key=b"b", expected=ABSENT, write_id=b"b", data={b"c": bytes(CELL_BYTES_MAX)}
    )
    refused, written = await store.mutate_many(table, [large, largest])
    assert isinstance(refused, RequestTooLarge)
    assert isinstance(written, int)
    assert [row.key for row in await store.scan(table, b"", b"", limit=9)] == [b"b"]


async def test_splits_are_regions(opened: Opener, table: str) -> None:
    store = await opened(10.0)
    await store.open_table(table, splits=[b"m", b"b", b"m"])
    await store.open_table(table, splits=[b"other"])
    client: Any = store._client

    def regions() -> int:
        with client._connection.getRegionLocator(client._name(table)) as locator:
            return len(locator.getStartKeys())

    assert await asyncio.to_thread(regions) == 3
    await store.drop_table(table)


async def test_an_unreachable_hbase_is_reported_in_time(jvm: JvmLimits) -> None:
    limits = HbaseLimits(connect_timeout_s=2)
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        await open_hbase_row_store("hbase://127.0.0.1:1/e2e", jvm, limits)
    took_s = time.monotonic() - began_s
    assert took_s < HbaseLimits().connect_timeout_s * scale()  # the claim is about time


@pytest.mark.parametrize("url", ["hbase://h:2181", "hbase:///x", "http://h/x", "hbase://h/a/b"])
async def test_a_wrong_url_is_refused(url: str, jvm: JvmLimits) -> None:
    with pytest.raises(ConfigError, match="hbase://"):
        await open_hbase_row_store(url, jvm, HbaseLimits())
