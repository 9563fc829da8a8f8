"""A simulated disk with segments written by hand."""

import random

from google_crc32c import extend

from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.disk import SimulatedDisk, SimulatedFile
from opentalos.testing.simulation.stores.stored_logs import BLOCK_HEADER, SEGMENT_HEADER_BYTES

SEED = 7
PATH = "topic/0/00000000000000000000-1.log"
PARTITION = ("topic", 0)


def new_disk(loop: SimulationLoop) -> SimulatedDisk:
    return SimulatedDisk(loop, random.Random(0), troubles=random.Random(0))


def write(disk: SimulatedDisk, path: str, content: bytes) -> None:
    file = SimulatedFile(Durability.SYNCED, disk.loop.process("s1"), bytearray(content))
    file.flushed_bytes = file.synced_bytes = len(content)
    file.committed_s = -10.0
    disk.files[path] = file


def segment(*blocks: bytes, base_offset: int = 0) -> bytes:
    """A header with all that the simulation reads of it, and the blocks."""
    header = bytearray(SEGMENT_HEADER_BYTES)
    header[12:16] = SEED.to_bytes(4, "big")
    header[24:32] = base_offset.to_bytes(8, "big")
    return bytes(header) + b"".join(blocks)


def block(offset: int, payload: bytes, committed: int = 0) -> bytes:
    """One block with one message."""
    size = BLOCK_HEADER.size + len(payload)
    fields = [0, size, SEED, 1, offset, committed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    rest = BLOCK_HEADER.pack(*fields)[4:] + payload
    crc: int = extend(SEED, rest)
    return crc.to_bytes(4, "big") + rest


def manifest(*segments: tuple[int, int, int | None]) -> bytes:
    """Args: base offset, epoch and next offset of each; None: it is not sealed."""
    rows = ",".join(
        f"[{base},{epoch},{'null' if following is None else following},99,0]"
        for base, epoch, following in segments
    )
    return f'{{"epoch":1,"start":0,"segments":[{rows}],"owner":"s1"}}'.encode()
