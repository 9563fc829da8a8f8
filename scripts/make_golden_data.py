"""Create tests/golden/data_vN: the data directory of a killed server and its expected contents.

Run once per on-disk format, on a version that writes it; never regenerate the result, because a
later version must open what an earlier one wrote. ``expected.json`` has the expected contents.

    python scripts/make_golden_data.py tests/golden/data_v1
"""

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.values import Commit, ConsumeUnit, NewTopic, Topic
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.limits import LogLimits
from opentalos.model.message import Compression, MessageBlock, PayloadFormat, ProducerStamp
from opentalos.server.data_directory import DataDirectory

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
YEAR_S = 365 * 86_400
NOW_MS = 1_700_000_000_000
ROOT_KEY = ("ROOTGOLDEN", "a secret of a test, used nowhere else")
LIMITS = LogLimits(segment_bytes_max=2_048, index_interval_bytes=512, space_reserve_bytes=0)
# Payload file of tests/golden/messages, messages in it, compression, format.
PAYLOADS = (
    ("v1", 1, Compression.NONE, PayloadFormat.TALOS),
    ("v2", 1, Compression.NONE, PayloadFormat.TALOS),
    ("v3", 1, Compression.NONE, PayloadFormat.TALOS),
    ("v3_snappy", 1, Compression.SNAPPY, PayloadFormat.TALOS),
    ("v3_gzip", 8, Compression.GZIP, PayloadFormat.TALOS),
    ("v3_zstd", 8, Compression.ZSTD, PayloadFormat.TALOS),
    ("v3_lz4", 8, Compression.LZ4, PayloadFormat.TALOS),
    ("k0", 2, Compression.NONE, PayloadFormat.KAFKA),
)
ROUNDS = 5  # so that several segments are sealed


class GoldenClock:
    """A clock that stands still between puts and draws the same tokens each time."""

    def __init__(self) -> None:
        self.now_ms, self._drawn = NOW_MS, 0

    def wall_ms(self) -> int:
        return self.now_ms

    def token(self, bytes_count: int) -> bytes:
        self._drawn += 1
        return self._drawn.to_bytes(bytes_count, "big")


async def start(data: Path, directory: DataDirectory, clock: GoldenClock) -> Broker:
    """A broker on the data directory, wired as in a server."""
    box = AesGcmSecretBox(directory.server_key())
    broker = open_broker(
        files=await open_local_file_store(data / "log"),
        meta=await open_sqlite_meta_store(data / "meta.sqlite"),
        rows=await open_sqlite_row_store(data / "rows.sqlite"),
        clock=clock,
        config=BrokerConfig(
            server=directory.server,
            advertise="127.0.0.1:9420",
            secret_box=box,
            log=LIMITS,
        ),
    )
    await broker.start()
    return broker


async def put(broker: Broker, topic: Topic, partition: int, block: MessageBlock) -> int:
    """Append a block; return its base offset."""
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def waiter(base: int, error: TalosError | None) -> None:
        done.set_exception(error) if error else done.set_result(base)

    broker.context.partition_log(topic, partition).append(block, waiter)
    return await done


async def fill(
    broker: Broker, clock: GoldenClock, topic: Topic, partition: int
) -> list[dict[str, object]]:
    """Append every payload several times; return what a reader must find."""
    found = []
    sequence = 0
    for number in range(ROUNDS * len(PAYLOADS)):
        name, messages, compression, payload_format = PAYLOADS[number % len(PAYLOADS)]
        payload = bytes.fromhex((GOLDEN / "messages" / f"{name}.hex").read_text())
        clock.now_ms += 1_000
        stamp = ProducerStamp(77, 1, sequence) if partition else None
        block = MessageBlock(
            payload,
            messages,
            compression,
            clock.now_ms - 5,
            payload_format,
            principal=number % 3,
            extras=b"extra" if number % 4 == 0 else b"",
            producer=stamp,
        )
        base = await put(broker, topic, partition, block)
        sequence += messages
        found.append(
            {
                "base_offset": base,
                "messages": messages,
                "append_ms": clock.now_ms,
                "create_ms": block.create_ms,
                "compression": int(compression),
                "format": int(payload_format),
                "payload": payload.hex(),
                "extras": block.extras.hex(),
            }
        )
    return found


async def checkpoint(broker: Broker, caller: Principal, topic: Topic) -> None:
    """A consumer group with a committed offset."""
    resource = topic.resource
    unit = ConsumeUnit("readers", resource, "worker-1", (0,))
    await broker.consumers.lock_worker(caller, unit, "10.0.0.1")
    await broker.consumers.lock_partitions(caller, unit, "10.0.0.1")
    await broker.consumers.update_offset(caller, Commit("readers", resource, 0, "worker-1", 7))


async def make(data: Path, target: Path) -> None:
    """Partition 0 is sealed, 1 unsealed, 2 empty; the server is then abandoned as if killed."""
    clock = GoldenClock()
    directory = DataDirectory(data, clock)
    broker = await start(data, directory, clock)
    root = await broker.principals.ensure_root(*ROOT_KEY)
    alice = await broker.principals.create(root, "alice")
    topic = await broker.topics.create_topic(
        alice, NewTopic(name="clicks", partitions=3, retention_s=YEAR_S)
    )
    expected = {"0": await fill(broker, clock, topic, 0)}
    await checkpoint(broker, alice, topic)
    await broker.close()
    broker = await start(data, directory, clock)
    expected["1"] = await fill(broker, clock, topic, 1)
    shutil.copytree(data, target, ignore=shutil.ignore_patterns("lock", "*-shm", "*.new"))
    text = json.dumps(
        {"topic": "clicks", "owner": "alice", "root_key": ROOT_KEY, "partitions": expected},
        indent=1,
    )
    (target / "expected.json").write_text(text + "\n")


def main() -> None:
    """Create the directory named on the command line."""
    target = Path(sys.argv[1])
    if target.exists():
        sys.exit(f"{target} exists; golden data is made once and kept")
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(make(Path(scratch) / "data", target))
    print(f"created {target}")


if __name__ == "__main__":
    main()
