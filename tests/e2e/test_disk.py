"""A disk that fills up, and a disk that changed a byte."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import TALOS, ServerProcess
from tests.waiting import answering, completed, elapse, eventually

from opentalos.log.maintenance.upkeep import SPACE_INTERVAL_S

DISK_BYTES = 96 << 20
RESERVE_BYTES = 24 << 20
EXCESSIVE_PENDING = 27  # not done, may be sent again: what a producer should do here
PUT_PAUSE_S = SPACE_INTERVAL_S / 20  # so that the reserve is not used up in between


@contextlib.contextmanager
def running(folder: Path, config: str = "") -> Iterator[tuple[ServerProcess, RawClient]]:
    server = ServerProcess(folder, config).start()
    client = RawClient(server.port)
    try:
        yield server, client
    finally:
        client.close()
        server.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        if os.environ.get("CI"):  # a skip there would hide that the full disk was never tried
            pytest.fail("a file system of its own needs root")
        pytest.skip("a file system of its own needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, keep_bytes: int) -> Path:
    """Take all but ``keep_bytes`` of the folder's file system."""
    ballast = folder / "ballast"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - keep_bytes)
    return ballast


def payloads(topic: RawTopic) -> list[bytes]:
    """Every payload of partition 0, from the start, read block by block."""
    found: list[bytes] = []
    while True:
        blocks = topic.get(len(found)).messageBlocks
        if not blocks:
            return found
        for block in blocks:
            data = block.messageBlock
            while data:  # V1: length of the sequence number, it, length of the data, it
                skip = 4 + int.from_bytes(data[:4], "big")
                end = skip + 4 + int.from_bytes(data[skip : skip + 4], "big")
                found.append(data[skip + 4 : end])
                data = data[end:]


def put_until_refused(topic: RawTopic, acked: list[bytes], *, most: int) -> TalosError:
    for number in range(most):
        payload = b"%06d" % number + os.urandom(512 << 10)
        try:
            topic.put(payload)
        except TalosError as error:
            return error
        acked.append(payload)
        elapse("the server checks the free space at intervals", PUT_PAUSE_S)
    raise AssertionError("the disk never filled up")


def put_when_possible(topic: RawTopic, payload: bytes) -> None:
    done = answering(lambda: topic.put(payload) is not None, TalosError)
    eventually("the server stores again with free space", done)


def test_a_nearly_full_disk_refuses_puts_and_serves_reads(small_disk: Path) -> None:
    config = f"[log]\nspace_reserve_bytes = {RESERVE_BYTES}\n"
    with running(small_disk, config) as (_, client):
        topic = RawTopic.create(client, "fills-up")
        acked: list[bytes] = []
        ballast = fill(small_disk, RESERVE_BYTES + (8 << 20))
        error = put_until_refused(topic, acked, most=200)
        assert error.code == EXCESSIVE_PENDING
        assert "free" in error.text
        assert payloads(topic) == acked
        ballast.unlink()
        put_when_possible(topic, b"after")
        assert payloads(topic) == [*acked, b"after"]


def test_a_disk_that_is_really_full_loses_nothing_acknowledged(small_disk: Path) -> None:
    config = "[log]\nspace_reserve_bytes = 0\n"
    with running(small_disk, config) as (_, client):
        topic = RawTopic.create(client, "is-full")
        acked: list[bytes] = []
        ballast = fill(small_disk, 8 << 20)
        put_until_refused(topic, acked, most=200)
        ballast.unlink()
        put_when_possible(topic, b"after")
        read = payloads(topic)
        unacked = [item for item in read if item not in acked and item != b"after"]
        assert [item for item in read if item in acked] == acked
        assert len(unacked) <= 1, "at most the refused put may be there: its outcome was unknown"
        assert read[-1] == b"after"


def flip_byte_of(data: Path, payload: bytes) -> Path:
    """Change one stored byte inside that payload; return the segment's path."""
    for path in sorted(data.rglob("*.log")):
        at = path.read_bytes().find(payload)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([payload[0] ^ 0xFF]))
            return path
    raise AssertionError("no segment holds the payload")


def test_a_corrupted_block_is_named_and_the_rest_stays_readable(tmp_path: Path) -> None:
    good, bad = [f"good block {number}".encode() for number in range(4)], b"the damaged block"
    with running(tmp_path) as (server, client):
        topic = RawTopic.create(client, "damaged", partitions=2)
        for payload in (good[0], good[1], bad, good[2]):
            topic.put(payload)
        topic.put(b"neighbour", partition=1)
        data = server.data
    segment = flip_byte_of(data, bad)
    verify = completed([TALOS, "log", "verify", "--data", data])
    assert verify.returncode == 1, verify.stderr
    assert segment.name in verify.stdout + verify.stderr
    with running(tmp_path) as (server, client):
        topic = RawTopic(client, topic.name, topic.resource)
        with pytest.raises(TalosError) as caught:
            topic.get(2)
        topic_uuid = topic.resource.topicTalosResourceName.rsplit("#", 1)[1]
        assert "damaged" in caught.value.text or topic_uuid in caught.value.text
        for part in ("partition 0", "offset 2"):
            assert part in caught.value.text
        assert good[0] in topic.get(0).messageBlocks[0].messageBlock
        assert good[1] in topic.get(1).messageBlocks[0].messageBlock
        assert good[2] in topic.get(3).messageBlocks[0].messageBlock
        assert b"neighbour" in topic.get(0, partition=1).messageBlocks[0].messageBlock
        topic.put(good[3])
        assert good[3] in topic.get(4).messageBlocks[0].messageBlock
        assert "Traceback" not in server.stderr()


def test_verify_accepts_what_a_server_wrote(tmp_path: Path) -> None:
    with running(tmp_path) as (server, client):
        topic = RawTopic.create(client, "intact", partitions=2)
        for number in range(20):
            topic.put(b"%d" % number, partition=number % 2)
        data = server.data
    verify = completed([TALOS, "log", "verify", "--data", data])
    assert verify.returncode == 0, verify.stdout + verify.stderr
