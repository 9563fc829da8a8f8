"""A log store on memory adapters for unit tests, and short ways to put and get."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from opentalos.adapters.memory import MemoryFileStore, MemoryMetaStore, MemoryStorage
from opentalos.log.log_store import LogStore
from opentalos.log.manifest.store import ROOT
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import CorruptLog, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, MessageBlock, ProducerStamp
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

TOPIC = TopicLogSettings("topic-uuid", Durability.SYNCED, 86_400.0)
LIMITS = LogLimits(space_reserve_bytes=0, reopen_attempts_max=3)


_TOKENS = count(1)  # no two servers draw the same


class FakeClock:
    """A wall clock that tests set, and counting tokens."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def token(self, bytes_count: int) -> bytes:
        return (0x5EED0000 + next(_TOKENS)).to_bytes(bytes_count, "big")


@dataclass
class Answers:
    """What waiters were called with, in order."""

    got: list[tuple[int, TalosError | None]] = field(default_factory=list)

    def __call__(self, base: int, error: TalosError | None) -> None:
        self.got.append((base, error))

    @property
    def bases(self) -> list[int]:
        return [base for base, error in self.got if error is None]

    @property
    def errors(self) -> list[TalosError]:
        return [error for _, error in self.got if error is not None]


@dataclass
class Bed:
    """One server's log store and the storage it stands on."""

    storage: MemoryStorage
    files: FileStore
    meta: MetaStore
    clock: FakeClock
    store: LogStore

    def log(self, partition: int = 0) -> PartitionLog:
        return self.store.partition(TOPIC, partition)


async def open_bed(
    storage: MemoryStorage | None = None,
    *,
    limits: LogLimits = LIMITS,
    files: FileStore | None = None,
    meta: MetaStore | None = None,
    clock: FakeClock | None = None,
) -> Bed:
    storage = storage or MemoryStorage()
    files = files or MemoryFileStore(storage)
    meta = meta or MemoryMetaStore(storage)
    clock = clock or FakeClock()
    store = LogStore(files=files, meta=meta, clock=clock, server="s1", limits=limits)
    await store.start()
    return Bed(storage, files, meta, clock, store)


def log_records(storage: MemoryStorage) -> list[str]:
    """Paths of all manifests."""
    return [path for path in storage.records if path.startswith(f"{ROOT}/")]


async def crash(bed: Bed) -> None:
    """End a server without sealing, as a kill would."""
    await bed.store.upkeep.close()
    await bed.store.scrub.close()
    bed.store._end_marks.close()
    await bed.store._journal_care.close()
    await bed.store._unrecovered.close()
    await bed.store._context.background.close()
    await bed.store._context.lanes.close()
    await bed.store._journal_care.stop_all()


def block(payload: bytes, messages: int = 1, producer: ProducerStamp | None = None) -> MessageBlock:
    return MessageBlock(payload, messages, create_ms=5, principal=7, producer=producer)


async def put(log: PartitionLog, payload: bytes, messages: int = 1) -> int:
    """Append one block and wait; its base offset."""
    return await put_block(log, block(payload, messages))


async def put_block(log: PartitionLog, message_block: MessageBlock) -> int:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def waiter(base: int, error: TalosError | None) -> None:
        if error is None:
            future.set_result(base)
        else:
            future.set_exception(error)

    log.append(message_block, waiter)
    return await future


async def payloads(log: PartitionLog, offset: int = -1) -> list[bytes]:
    """Payloads of every message block from ``offset`` to the end."""
    found: list[bytes] = []
    while True:
        result = await log.read(offset, messages_max=1_000, bytes_max=1 << 20)
        if not result.blocks:
            return found
        found += [bytes(item.payload) for item in result.blocks]
        offset = result.blocks[-1].next_offset


async def proven_payloads(log: PartitionLog) -> list[bytes]:
    """Payloads of a damaged log from its start on; what follows them is the damage, not its end."""
    found, offset = list[bytes](), -1
    while True:
        try:
            result = await log.read(offset, messages_max=1_000, bytes_max=1 << 20)
        except CorruptLog:
            return found
        assert result.blocks, "a damaged log looks as if it ended"
        found += [bytes(item.payload) for item in result.blocks]
        offset = result.blocks[-1].next_offset


async def until(condition: Callable[[], bool], step_s: float = 0.001) -> None:
    """Wait until ``condition`` holds, in virtual time; the test's own timeout ends a hang.

    A step of 0 checks at every turn of the loop, for conditions that hold within one moment.
    """
    while True:
        if condition():
            return
        await asyncio.sleep(step_s)
