"""Commits through the HDFS adapter compared with a bare loop on the Java client.

    python -m bench.hdfs_figures URL [--conf-dir DIR] [--jars DIR] [--seconds 5]

URL: hdfs://HOST:PORT/FOLDER; the directory is removed afterwards. Both sides write the same bytes
to files with the same settings; runs alternate, so that noise of the machine affects both.
"""

import argparse
import asyncio
import resource
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from opentalos.adapters.hdfs import HdfsFileStore, open_hdfs_file_store
from opentalos.adapters.hdfs.configuration import java_configuration, parse_hdfs_url
from opentalos.model.limits import HdfsLimits, JvmLimits
from opentalos.model.message import Durability

SIZES = (1 << 10, 16 << 10, 256 << 10)
FILES = (1, 8)
BLOCK_BYTES = 256 << 20
STEPS = 30  # creates, recoveries and closes that are timed


class Times:
    """The durations of one operation, in milliseconds."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    def add(self, began_s: float) -> None:
        """Add an operation that began at ``began_s`` (monotonic) and ends now."""
        self.ms.append((time.perf_counter() - began_s) * 1e3)

    def __str__(self) -> str:
        ordered = sorted(self.ms)
        p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        return f"p50 {p50:7.2f}  p99 {p99:7.2f} ms"


class Bare:
    """The Java client as a simple program uses it: one thread per file, three calls."""

    def __init__(self, url: str, limits: HdfsLimits) -> None:
        import jpype

        location, classes = parse_hdfs_url(url), jpype.JClass
        conf_dir = Path(limits.conf_dir) if limits.conf_dir else None
        configuration = java_configuration(classes, conf_dir, limits)
        uri = classes("java.net.URI").create(location.uri)
        self._fs = classes("org.apache.hadoop.fs.FileSystem").newInstance(uri, configuration)
        self._path = classes("org.apache.hadoop.fs.Path")
        self._root = location.root
        self._bytes = jpype.JArray(jpype.JByte)

    def run(self, durability: Durability, size: int, files: int, seconds: float) -> Times:
        """Commit on every file until the time is over."""
        times, threads = Times(), []
        until_s = time.perf_counter() + seconds
        for _ in range(files):
            stream = self._fs.create(self._path(f"{self._root}/bare/{uuid.uuid4().hex}"))
            arguments = (stream, durability, size, until_s, times)
            threads.append(threading.Thread(target=self._commits, args=arguments))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return times

    def _commits(
        self, stream: Any, durability: Durability, size: int, until_s: float, times: Times
    ) -> None:
        payload = bytes(size)
        sync: Callable[[], None] = (
            stream.hsync if durability is Durability.SYNCED else stream.hflush
        )
        stream.write(self._bytes(payload))
        sync()  # the first sync creates the pipeline
        while (began_s := time.perf_counter()) < until_s:
            stream.write(self._bytes(payload))
            sync()
            times.add(began_s)
        stream.close()


async def adapter(
    store: HdfsFileStore, durability: Durability, size: int, files: int, seconds: float
) -> Times:
    """Commit through the port, one task per file."""
    times = Times()
    until_s = time.perf_counter() + seconds

    async def commits() -> None:
        file = await store.create(f"ours/{uuid.uuid4().hex}", durability=durability)
        chunks: list[bytes | memoryview] = [bytes(100), bytes(size - 100)]
        await file.commit(chunks)
        while (began_s := time.perf_counter()) < until_s:
            await file.commit(chunks)
            times.add(began_s)
        await file.close()

    await asyncio.gather(*(commits() for _ in range(files)))
    return times


async def steps(store: HdfsFileStore, other: HdfsFileStore) -> None:
    """Operations that happen once per file: create, first commit, close, takeover, read, delete."""
    names = ("create", "first commit", "close", "take-over", "recover closed", "read closed 4 KiB",
             "read open 4 KiB", "list 2", "delete")  # fmt: skip
    all_times = {name: Times() for name in names}

    async def timed(name: str, call: Any) -> Any:
        began_s = time.perf_counter()
        result = await call
        all_times[name].add(began_s)
        return result

    for number in range(STEPS):
        folder = f"steps/{number}"
        path, left = f"{folder}/closed", f"{folder}/left"
        file = await timed("create", store.create(path, durability=Durability.SYNCED))
        await timed("first commit", file.commit([bytes(4096)]))
        await timed("close", file.close())
        writer = await store.create(left, durability=Durability.SYNCED)
        await writer.commit([bytes(4096)])
        await timed("read open 4 KiB", other.read(left, position=0, bytes_max=4096))
        await timed("take-over", other.recover(left, deadline_s=10))
        await timed("recover closed", other.recover(path, deadline_s=10))
        await other.read(path, position=0, bytes_max=4096)
        await timed("read closed 4 KiB", other.read(path, position=0, bytes_max=4096))
        await timed("list 2", other.list(folder))
        for file in (path, left):
            await timed("delete", other.delete(file))
    for name, times in all_times.items():
        print(f"{name:18} {times}")


async def measure(url: str, jvm: JvmLimits, limits: HdfsLimits, seconds: float) -> None:
    began_s = time.perf_counter()
    store = await open_hdfs_file_store(url, jvm, limits)
    print(f"store open after {time.perf_counter() - began_s:.1f} s, RSS {rss_mb()} MiB")
    other = await open_hdfs_file_store(url, jvm, limits)
    bare = await asyncio.to_thread(Bare, url, limits)
    for durability in (Durability.FLUSHED, Durability.SYNCED):
        for files in FILES:
            for size in SIZES:
                theirs = await asyncio.to_thread(bare.run, durability, size, files, seconds)
                ours = await adapter(store, durability, size, files, seconds)
                head = f"{durability.value:8} {files} files {size >> 10:4} KiB"
                for side, times in (("bare   ", theirs), ("adapter", ours)):
                    print(f"{head}  {side} {len(times.ms) / seconds:7.0f}/s  {times}")
    await steps(store, other)
    for path in await store.list(""):
        await store.delete(path)
    began_s = time.perf_counter()
    await store.close()
    await other.close()
    print(f"two stores closed in {time.perf_counter() - began_s:.2f} s, RSS {rss_mb()} MiB")


def rss_mb() -> int:
    """The current resident memory, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--conf-dir", default="")
    parser.add_argument("--jars", default="")
    parser.add_argument("--replication", type=int, default=3)
    parser.add_argument("--threads", type=int, default=HdfsLimits().threads)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    limits = HdfsLimits(
        conf_dir=given.conf_dir,
        replication=given.replication,
        threads=given.threads,
        block_bytes=BLOCK_BYTES,
    )
    uvloop.run(measure(given.url, JvmLimits(jars=given.jars), limits, given.seconds))


if __name__ == "__main__":
    main()
