"""Raw disk performance, measured in the same run as the baseline for durable writes."""

import os
import time
from pathlib import Path

RECORD_BYTES = 1_088  # a 1 KiB message with its block header, as in the hot-path measurements
LARGE_BYTES = 1 << 20
GROUP_RECORDS_MAX = 256  # of one sync in the loop at a rate, as in a group of the log


def synced_append_latencies_s(folder: Path, *, seconds: float) -> list[float]:
    """Sorted latencies of append + fdatasync in a bare loop, in seconds."""
    record = os.urandom(RECORD_BYTES)
    descriptor = os.open(folder / "fdatasync.bin", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    latencies = []
    try:
        stop = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < stop:
            os.write(descriptor, record)
            os.fdatasync(descriptor)
            latencies.append(time.perf_counter() - begin)
    finally:
        os.close(descriptor)
        (folder / "fdatasync.bin").unlink()
    return sorted(latencies)


def offered_append_latencies_s(folder: Path, *, rate: float, seconds: float) -> list[float]:
    """Sorted latencies of the same loop if records come at a rate, from when each was due.

    One sync takes all that are due. A bare loop that waits for each sync counts a stall once; here
    it counts for every record that would have come meanwhile, as for callers in an open loop.
    """
    record = os.urandom(RECORD_BYTES)
    descriptor = os.open(folder / "offered.bin", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    latencies: list[float] = []
    try:
        due_s = time.perf_counter()
        stop_s = due_s + seconds
        while due_s < stop_s:
            time.sleep(max(0.0, due_s - time.perf_counter()))
            count = min(int((time.perf_counter() - due_s) * rate) + 1, GROUP_RECORDS_MAX)
            os.write(descriptor, record * count)
            os.fdatasync(descriptor)
            latencies += waits_s(time.perf_counter(), due_s, rate, count)
            due_s += count / rate
    finally:
        os.close(descriptor)
        (folder / "offered.bin").unlink()
    return sorted(latencies)


def waits_s(end_s: float, due_s: float, rate: float, count: int) -> list[float]:
    """Of so many records, the first of them due at ``due_s``, that one sync took until the end."""
    return [end_s - due_s - number / rate for number in range(count)]


def synced_write_bytes_per_s(folder: Path, *, seconds: float) -> float:
    """Throughput of synced 1 MiB appends to one file."""
    record = os.urandom(LARGE_BYTES)
    descriptor = os.open(folder / "large.bin", os.O_CREAT | os.O_WRONLY, 0o600)
    written = 0
    try:
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            written += os.pwritev(descriptor, [record], written, os.RWF_DSYNC)
        return written / (time.perf_counter() - begin)
    finally:
        os.close(descriptor)
        (folder / "large.bin").unlink()


def cat_bytes_per_s(files: list[Path]) -> float:
    """Rate of reading the files from end to end through a 1 MiB buffer, page cache dropped."""
    drop_from_page_cache(files)
    total = 0
    begin = time.perf_counter()
    for path in files:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(LARGE_BYTES):
                total += len(chunk)
    return total / (time.perf_counter() - begin)


def drop_from_page_cache(files: list[Path]) -> None:
    """Drop the files from the page cache, so that the next read is cold."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
