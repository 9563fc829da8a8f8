"""A process killed during writes loses nothing that was acknowledged."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accelerator import KINDS
from tests.waiting import limit_s

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.sqlite import open_sqlite_meta_store

WRITER = """
import asyncio, sys
from pathlib import Path
from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.model.message import Durability

async def append(store, name, durability):
    file = await store.create(f"t/{name}", durability=durability)
    number = 0
    while True:
        await file.commit([b"%07d" % number, b"\\n"])
        print(name, number, flush=True)
        number += 1

async def count(meta, name):
    version = await meta.create(name, b"0", ephemeral=False)
    await meta.create(f"live/{name}", b"", ephemeral=True)
    while True:
        version = await meta.replace(name, b"%d" % (version + 1), version)
        print(name, version, flush=True)

async def main():
    root = Path(sys.argv[1])
    store = await open_local_file_store(root / "log", accelerator=sys.argv[2])
    meta = await open_sqlite_meta_store(root / "meta.sqlite")
    files = [append(store, f"synced{n}", Durability.SYNCED) for n in range(2)]
    await asyncio.gather(*files, append(store, "flushed", Durability.FLUSHED), count(meta, "count"))

asyncio.run(main())
"""
APPENDER = """
import asyncio, sys
from pathlib import Path
from opentalos.adapters.local import open_local_file_store
from opentalos.model.errors import Fenced
from opentalos.model.message import Durability

async def main():
    store = await open_local_file_store(Path(sys.argv[1]), accelerator=sys.argv[3])
    file = await store.create("t/0", durability=Durability[sys.argv[2]])
    number = 0
    try:
        while True:
            await file.commit([b"%07d\\n" % number])
            print(number, flush=True)
            number += 1
    except Fenced:
        print("fenced", flush=True)
        await store.close()

asyncio.run(main())
"""
LINES = 400  # acknowledgements before the kill
WRITERS = 4  # of WRITER; each acknowledges something before the kill


def acknowledged_until_killed(root: Path, accelerator: str) -> dict[str, int]:
    """The last acknowledged number of each writer."""
    command = [sys.executable, "-c", WRITER, str(root), accelerator]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acked: dict[str, int] = {}
    killed = False
    for number, line in enumerate(writer.stdout):
        if line.endswith("\n"):
            name, value = line.split()
            acked[name] = int(value)
        if number >= LINES and len(acked) == WRITERS and not killed:
            os.kill(writer.pid, signal.SIGKILL)
            killed = True
    writer.wait()
    writer.stdout.close()
    return acked


@pytest.mark.parametrize("accelerator", KINDS)
def test_every_commit_that_was_acknowledged_survives(tmp_path: Path, accelerator: str) -> None:
    acked = acknowledged_until_killed(tmp_path, accelerator)

    async def judge() -> None:
        store = await open_local_file_store(tmp_path / "log")
        meta = await open_sqlite_meta_store(tmp_path / "meta.sqlite")
        record = await meta.get("count")
        assert record is not None
        assert acked.pop("count") <= record.version == int(record.value)
        assert await meta.children("live") == []
        for name, last in acked.items():
            length = await store.recover(f"t/{name}", deadline_s=limit_s())
            content = await store.read(f"t/{name}", position=0, bytes_max=1 << 24)
            assert len(content) == length >= 8 * (last + 1)
            expected = b"".join(b"%07d\n" % number for number in range(length // 8 + 1))
            assert expected.startswith(content)
        await store.close()
        await meta.close()

    asyncio.run(judge())


@pytest.mark.parametrize("durability", ["SYNCED", "FLUSHED"])
@pytest.mark.parametrize("accelerator", KINDS)
def test_a_writer_in_another_process_is_fenced(
    tmp_path: Path, durability: str, accelerator: str
) -> None:
    command = [sys.executable, "-c", APPENDER, str(tmp_path), durability, accelerator]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(LINES // 4):
            assert writer.stdout.readline()

        async def take_over() -> int:
            store = await open_local_file_store(tmp_path)
            length = await store.recover("t/0", deadline_s=limit_s())
            content = await store.read("t/0", position=0, bytes_max=1 << 24)
            await store.close()
            assert len(content) == length
            return length

        length = asyncio.run(take_over())
        rest = writer.stdout.read().split()
    assert rest.pop() == "fenced"
    last = int(rest[-1]) if rest else LINES // 4 - 1
    assert length >= 8 * (last + 1)
