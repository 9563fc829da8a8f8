"""RowStore on HBase."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from opentalos.adapters.hbase.client import Attempt, HbaseClient, KeyRange
from opentalos.adapters.hbase.configuration import HbaseLocation, parse_hbase_url
from opentalos.adapters.io_crew import ThreadCrew
from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.jvm import configured_folder, has_class, leave_thread, start_jvm
from opentalos.adapters.row_rules import (
    RowState,
    check_mutation,
    check_mutations,
    check_scan,
    next_state,
    only_clears,
)
from opentalos.model.errors import (
    ConfigError,
    NotFound,
    OutcomeUnknown,
    RequestTooLarge,
    StoreUnavailable,
    TalosError,
    VersionConflict,
)
from opentalos.model.limits import HbaseLimits, JvmLimits
from opentalos.ports.row_store import FamilyName, Row, RowMutation

T = TypeVar("T")

TABLE_TIMEOUT_S = 60.0  # of making and dropping a table: regions are assigned one by one
GRACE_S = 1.0  # for a Java call to end by its own timeout before it is given up
CLOSE_S = 5.0
ROWS_PER_CALL = 512  # of one get
PART_ROWS_MIN, PART_ROWS_MAX = 8, 64  # of one batch; HBase applies its rows one after the other
CELL_BYTES_MAX = 8 << 20  # HBase's own bound is 10 MiB, with the key
PAUSE_S = 0.05  # before the first repeat; doubles
PAUSE_MAX_S = 0.5
_CLIENT_CLASS = "org.apache.hadoop.hbase.client.Connection"


class HbaseRowStore:
    """RowStore on the tables of one namespace.

    Tries are repeated here until ``call_timeout_s``: the identical compare-and-set is harmless,
    since the write id shows whether it was applied before.
    """

    def __init__(self, client: HbaseClient, threads: IoThreads, limits: HbaseLimits) -> None:
        self._client, self._threads, self._limits = client, threads, limits
        self._closed = False

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
        """Make the table if it is not there, with a region for each split; see the port."""
        await self._read(TABLE_TIMEOUT_S, HbaseClient.open_table, table, sorted(set(splits)))

    async def drop_table(self, table: str) -> None:
        """Remove the table with its rows; an absent one is no error."""
        await self._read(TABLE_TIMEOUT_S, HbaseClient.drop_table, table)

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """Rows in the order asked; see the port."""
        found: list[Row | None] = []
        for start in range(0, len(keys), ROWS_PER_CALL):
            some = keys[start : start + ROWS_PER_CALL]
            seconds = self._limits.call_timeout_s
            found += await self._read(seconds, HbaseClient.get, table, some, family)
        return found

    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]:
        """Rows of a key range; see the port."""
        check_scan(limit)
        if stop and start >= stop:
            return []
        seconds = self._limits.call_timeout_s
        keys = KeyRange(start, stop, limit, reverse)
        deadline_s = monotonic() + seconds
        return await self._read(seconds, HbaseClient.scan, table, keys, family, deadline_s)

    async def mutate(self, table: str, mutation: RowMutation) -> int:
        """One compare-and-set; see the port."""
        check_mutation(mutation)
        (outcome,) = await self._write(table, [mutation])
        if isinstance(outcome, TalosError):
            raise outcome
        return outcome

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        """One outcome per mutation; several batches at once; see the port."""
        check_mutations(mutations)
        even = -(-len(mutations) // self._limits.threads)
        size = min(max(even, PART_ROWS_MIN), PART_ROWS_MAX)
        parts = [mutations[start : start + size] for start in range(0, len(mutations), size)]
        outcomes = await asyncio.gather(*(self._write(table, part) for part in parts))
        for outcome in (outcome for part in outcomes for outcome in part):
            if isinstance(outcome, NotFound):  # of the table: nothing was written
                raise outcome
        return [outcome for part in outcomes for outcome in part]

    async def close(self) -> None:
        """Finish calls under way and close the connection to HBase."""
        if self._closed:
            return
        self._closed = True
        self._threads.submit(self._client.close, (), lambda _result, _error, _seconds: None)
        await self._threads.close(deadline_s=CLOSE_S)

    async def open(self) -> None:
        """Make the namespace. Raises: StoreUnavailable."""
        await self._read(self._limits.connect_timeout_s, HbaseClient.make_namespace)

    async def _write(self, table: str, mutations: Sequence[RowMutation]) -> list[int | TalosError]:
        writes = [_Write(mutation) for mutation in mutations]
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._limits.call_timeout_s
        pause_s = PAUSE_S
        while open_writes := [write for write in writes if write.outcome is None]:
            attempts = [write.attempt for write in open_writes]
            answers = await self._try_writes(table, attempts, deadline_s - loop.time())
            for write, answer in zip(open_writes, answers, strict=True):
                write.take(answer)
            if any(write.failure is not None for write in open_writes):
                if self._closed or loop.time() + pause_s > deadline_s:
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
        return [write.result() for write in writes]

    async def _try_writes(
        self, table: str, attempts: Sequence[Attempt], seconds: float
    ) -> Sequence[int | RowState | TalosError]:
        try:
            return await self._run(seconds, self._client.write, table, attempts)
        except StoreUnavailable as error:
            return [error] * len(attempts)
        except TimeoutError:
            return [OutcomeUnknown(f"{table}: HBase did not answer")] * len(attempts)

    async def _read(self, seconds: float, call: Callable[..., T], *args: Any) -> T:
        """A call of the client that may be repeated. Raises: StoreUnavailable: not in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + seconds
        pause_s = PAUSE_S
        while True:
            try:
                return await self._run(deadline_s - loop.time(), call, self._client, *args)
            except TimeoutError as error:
                raise StoreUnavailable("HBase did not answer") from error
            except StoreUnavailable:
                if self._closed or loop.time() + pause_s > deadline_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _run(self, seconds: float, call: Callable[..., T], *args: Any) -> T:
        if self._closed:
            raise StoreUnavailable("the row store is closed")
        async with asyncio.timeout(max(0.0, seconds) + GRACE_S):
            return await self._threads.run(call, *args)


class _Write:
    """One mutation on its way, over all its tries."""

    def __init__(self, mutation: RowMutation) -> None:
        self._mutation = mutation
        self._current = RowState(mutation.expected, b"", mutation.expected == 0, {}, {})
        self._unknown = False  # a former try may have been applied
        self.failure: TalosError | None = None  # of the last try
        self.outcome: int | TalosError | None = None
        cells = (*mutation.data.values(), *mutation.pending.values())
        largest = max((len(cell) for cell in cells if cell is not None), default=0)
        if largest > CELL_BYTES_MAX:
            self.outcome = RequestTooLarge(f"a cell of {largest} bytes, at most {CELL_BYTES_MAX}")

    @property
    def attempt(self) -> Attempt:
        """The next try."""
        return Attempt(self._mutation, self._current)

    def take(self, answer: int | RowState | TalosError) -> None:
        """What the last try gave."""
        self.failure = None
        if isinstance(answer, int):
            self.outcome = answer
        elif isinstance(answer, RowState):
            self._decide(answer)
        elif isinstance(answer, StoreUnavailable | OutcomeUnknown):
            self._unknown = self._unknown or isinstance(answer, OutcomeUnknown)
            self.failure = answer
        else:
            self.outcome = answer

    def result(self) -> int | TalosError:
        """The outcome, also of a write whose time is over."""
        if self.outcome is not None:
            return self.outcome
        text = str(self.failure)
        return OutcomeUnknown(text) if self._unknown else StoreUnavailable(text)

    def _decide(self, found: RowState) -> None:
        """The row is not as it was thought to be."""
        try:
            applied = next_state(found, self._mutation) is found
        except VersionConflict as conflict:
            # Another write took the version that this one would have given: it was not applied.
            taken = found.version == self._mutation.expected + 1
            sure = not self._unknown or (taken and not only_clears(self._mutation))
            self.outcome = conflict if sure else OutcomeUnknown(str(conflict))
            return
        if applied:
            self.outcome = found.version
        else:
            self._current = found


async def open_hbase_row_store(url: str, jvm: JvmLimits, limits: HbaseLimits) -> HbaseRowStore:
    """A store whose namespace exists. Starts the JVM if it does not run.

    Raises: ConfigError: URL, jars, JVM or ``conf_dir``; the text says which. StoreUnavailable:
    HBase was not reached within ``connect_timeout_s``.
    """
    location = parse_hbase_url(url)
    conf_dir = configured_folder(limits.conf_dir, "HBASE_CONF_DIR")
    start_jvm(jvm, [] if conf_dir is None else [conf_dir])
    if not has_class(_CLIENT_CLASS):
        raise ConfigError(
            "the JVM has no HBase client; get its jar with: talos backend fetch client"
        )
    threads = IoThreads("hbase", threads=limits.threads, crew=ThreadCrew(leave=leave_thread))
    try:
        return await _opened(location, conf_dir, limits, threads)
    except BaseException:
        await threads.close(deadline_s=CLOSE_S)
        raise


async def _opened(
    location: HbaseLocation, conf_dir: Path | None, limits: HbaseLimits, threads: IoThreads
) -> HbaseRowStore:
    try:
        async with asyncio.timeout(limits.connect_timeout_s):
            client = await threads.run(HbaseClient, location, conf_dir, limits)
            store = HbaseRowStore(client, threads, limits)
            try:
                await store.open()
            except BaseException:
                await store.close()
                raise
    except TimeoutError as error:
        seconds = limits.connect_timeout_s
        text = f"HBase behind ZooKeeper at {location.quorum} does not answer within {seconds:g} s"
        raise StoreUnavailable(text) from error
    return store
