"""Create tests/golden/killed_v1: what a server leaves behind that was killed at work.

Beside data_v1 it has what a server in use has: synced and flushed topics, a log whose segments
retention dropped, idempotent producers, a consumer group, a table with a stream, and metering.
Run once, on the version whose format it keeps; never regenerate the result. ``expected.json`` has
the expected contents.

    python scripts/make_golden_killed.py tests/golden/killed_v1
    python scripts/make_golden_killed.py tests/golden/killed_v2_journal --journal
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.tables.api.values import TableSpec
from opentalos.broker.values import Commit, ConsumeUnit, NewTopic, Topic
from opentalos.model.change import StreamView
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.limits import LogLimits, MeteringSettings, SystemTopicSettings
from opentalos.model.message import MessageBlock, ProducerStamp
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.table import KeyPart, StreamSpec, TableSchema
from opentalos.server.data_directory import DataDirectory

YEAR_S = 365 * 86_400
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
ROOT_KEY = ("ROOTKILLED", "a secret of a test, used nowhere else")
LIMITS = LogLimits(
    segment_bytes_max=4_096,
    index_interval_bytes=512,
    space_reserve_bytes=0,
    retention_interval_s=1e6,  # a pass runs when it is wanted
)
METERING = MeteringSettings(interval_s=3_600, partitions=1)
# With a shared journal; made when a clock that jumps by hours had ceased to be believed at once, so
# retention drops nothing.
WITH_JOURNAL = "--journal" in sys.argv
READY = "ready to be killed"
BLOCKS, MESSAGES = 24, 3  # of one fill, and of each block; several segments of 4 KiB


def payload_of(topic: str, partition: int, number: int) -> bytes:
    """What block ``number`` of a partition holds; a test makes it again."""
    return f"{topic} {partition} {number}; ".encode() * 9


class GoldenClock:
    """A clock that stands still between puts and draws the same tokens each time."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms, self._drawn = now_ms, now_ms % 1_000_000_007

    def wall_ms(self) -> int:
        return self.now_ms

    def token(self, bytes_count: int) -> bytes:
        self._drawn += 1
        return self._drawn.to_bytes(bytes_count, "big")


@asynccontextmanager
async def started(
    data: Path, directory: DataDirectory, clock: GoldenClock
) -> AsyncIterator[Broker]:
    """A broker on the data directory, wired as in a server; hardly anything runs by itself."""
    box = AesGcmSecretBox(directory.server_key())
    files = await open_local_file_store(data / "log")
    meta = await open_sqlite_meta_store(data / "meta.sqlite")
    rows = await open_sqlite_row_store(data / "rows.sqlite")
    config = BrokerConfig(
        server=directory.server,
        advertise="127.0.0.1:9420",
        secret_box=box,
        log=replace(LIMITS, journal="on" if WITH_JOURNAL else "off"),
        usage_topic=SystemTopicSettings(partitions=1),
        metering=METERING,
    )
    broker = open_broker(files=files, meta=meta, rows=rows, clock=clock, config=config)
    await broker.start()
    yield broker
    await broker.close()
    for store in (files, meta, rows):
        await store.close()


@dataclass
class Maker:
    """Fills one data directory and notes what a reader must find."""

    clock: GoldenClock
    expected: dict[str, list[list[int]]] = field(default_factory=dict)

    async def fill(
        self, broker: Broker, topic: Topic, partition: int, producer_id: int = 0
    ) -> None:
        """Append blocks to a partition, each a second later than the one before."""
        found = self.expected.setdefault(f"{topic.name}/{partition}", [])
        for number in range(BLOCKS):
            self.clock.now_ms += 1_000
            payload = payload_of(topic.name, partition, number)
            stamp = ProducerStamp(producer_id, 1, number * MESSAGES) if producer_id else None
            block = MessageBlock(payload, MESSAGES, producer=stamp)
            base = await _put(broker, topic, partition, block)
            found.append([base, self.clock.now_ms])


async def _put(broker: Broker, topic: Topic, partition: int, block: MessageBlock) -> int:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def waiter(base: int, error: TalosError | None) -> None:
        done.set_exception(error) if error else done.set_result(base)

    broker.context.partition_log(topic, partition).append(block, waiter)
    return await done


async def first_life(broker: Broker, maker: Maker) -> None:
    """Topics, a group and a table; the server then stops as it should."""
    root = await broker.principals.ensure_root(*ROOT_KEY)
    alice = await broker.principals.create(root, "alice")
    topics = [
        NewTopic(name="clicks", partitions=2, retention_s=YEAR_S),
        NewTopic(
            name="views", partitions=1, retention_s=YEAR_S, attributes={"durability": "flushed"}
        ),
        NewTopic(name="old", partitions=1, retention_s=YEAR_S if WITH_JOURNAL else 3_600),
        NewTopic(name="changes", partitions=1, retention_s=YEAR_S),
    ]
    clicks, _, old, _ = [await broker.topics.create_topic(alice, topic) for topic in topics]
    await maker.fill(broker, clicks, 0)
    await maker.fill(broker, old, 0, producer_id=77)
    await _checkpoint(broker, alice, clicks, 7)
    schema = TableSchema(
        primary=(KeyPart("user"),),
        attributes={"user": DataType.STRING, "city": DataType.STRING},
        streams={"changes": StreamSpec(view=StreamView.MUTATE_LOG)},
    )
    await broker.table_admin.create(alice, "people", TableSpec(schema=schema))
    await _write(broker, alice, range(5))
    maker.clock.now_ms += 120_000
    await _meter(broker)


async def second_life(broker: Broker, maker: Maker) -> None:
    """Two hours later: retention drops a whole log; then the server is killed at work."""
    root = broker.principals.key(ROOT_KEY[0]).principal  # type: ignore[union-attr]
    infos = broker.principals.list_principals(root)
    alice = next(info.principal for info in infos if info.principal.id == "alice")
    topics = {name: broker.topics.find_topic(root, f"alice/{name}") for name in ("clicks", "old")}
    if not WITH_JOURNAL:
        await _drop(broker, topics["old"])
        maker.expected["old/0"] = []
    await maker.fill(broker, topics["clicks"], 1, producer_id=78)
    await maker.fill(broker, broker.topics.find_topic(root, "alice/views"), 0)
    await _write(broker, alice, range(5, 7))
    await _checkpoint(broker, alice, topics["clicks"], 9)


async def _drop(broker: Broker, topic: Topic) -> None:
    """Let retention drop all of the log."""
    await broker.context.partition_log(topic, 0).stats()
    await _meter(broker)
    await broker.context.log.upkeep.run_pass()
    log = broker.context.partition_log(topic, 0)
    await asyncio.sleep(0)
    await log.writer.run(_nothing)  # after the job that drops
    manifest = log.writer.versioned.manifest
    assert not manifest.segments
    assert manifest.state_of is not None


async def _nothing() -> None:
    """A job that only waits for its turn."""


async def _meter(broker: Broker) -> None:
    assert broker.metering is not None
    await broker.metering.run_once()


async def _checkpoint(broker: Broker, caller: Principal, topic: Topic, offset: int) -> None:
    unit = ConsumeUnit("readers", topic.resource, "worker-1", (0,))
    await broker.consumers.lock_worker(caller, unit, "10.0.0.1")
    await broker.consumers.lock_partitions(caller, unit, "10.0.0.1")
    await broker.consumers.update_offset(
        caller, Commit("readers", topic.resource, 0, "worker-1", offset)
    )


async def _write(broker: Broker, caller: Principal, numbers: range) -> None:
    for number in numbers:
        key = {"user": Datum(DataType.STRING, f"user {number}")}
        city = {"city": Datum(DataType.STRING, f"city {number}")}
        await broker.tables.write(caller, "people", Mutation(Operation.PUT, key, city))


async def live(data: Path) -> None:
    """Both lives, the second without an end."""
    maker = Maker(GoldenClock(NOW_MS))
    directory = DataDirectory(data, maker.clock)
    async with started(data, directory, maker.clock) as broker:
        await first_life(broker, maker)
    maker.clock = GoldenClock(NOW_MS + 2 * HOUR_MS)
    async with started(data, directory, maker.clock) as broker:
        await second_life(broker, maker)
        _note(data, maker)
        print(READY, flush=True)
        await asyncio.Event().wait()


def _note(data: Path, maker: Maker) -> None:
    expected = {
        "root_key": ROOT_KEY,
        "now_ms": maker.clock.now_ms,
        "messages_per_block": MESSAGES,
        "start_offsets": {} if WITH_JOURNAL else {"old/0": BLOCKS * MESSAGES},
        "checkpoint": 9,
        "records": 7,
        "partitions": maker.expected,
    }
    (data / "expected.json").write_text(json.dumps(expected) + "\n")


def make(target: Path) -> None:
    """Let another process live in a scratch directory, kill it, and keep what it left."""
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        command = [sys.executable, __file__, "--live", str(data), *sys.argv[2:]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            line = server.stdout.readline().strip()
            os.kill(server.pid, signal.SIGKILL)
        if line != READY:
            sys.exit("the server ended before it could be killed")
        shutil.copytree(data, target, ignore=shutil.ignore_patterns("lock", "*-shm", "*.new"))


def main() -> None:
    """Create the directory named on the command line."""
    if sys.argv[1] == "--live":
        asyncio.run(live(Path(sys.argv[2])))
        return
    target = Path(sys.argv[1])
    if target.exists():
        sys.exit(f"{target} exists; golden data is made once and kept")
    make(target)
    print(f"created {target}")


if __name__ == "__main__":
    main()
