"""A manifest with a flipped bit is refused, alone; servers of two versions read each other's."""

from dataclasses import replace

import pytest
from tests.unit.log.bed import crash, open_bed, payloads, put

from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import manifest_path
from opentalos.log.metering.meter import Mark
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.message import PartitionKey
from opentalos.wire.record_crc import with_crc

MANIFEST = Manifest(
    epoch=3,
    owner="server-1",
    instance="00ff",
    change=7,
    segments=(Segment(0, 1, 77, 4_000, 1_700_000_000_000), Segment(77, 3)),
    metered=Mark(70, 1_700_000_000_000, 0),
)
# As the version before checksums wrote it; it ignores members that it does not know.
FORMER = (
    b'{"version":1,"epoch":3,"owner":"server-1","instance":"00ff","change":7,"start":0,'
    b'"deleted":false,"state_of":null,"segments":[[0,1,77,4000,1700000000000],[77,3,null,0,0]],'
    b'"metered":[70,1700000000000,0]}'
)


def test_servers_with_and_without_checksums_read_each_other() -> None:
    assert MANIFEST.encode() == with_crc(FORMER)
    former = replace(MANIFEST, cut=None)
    assert Manifest.decode(FORMER) == former
    assert Manifest.decode(FORMER[:-1] + b',"unknown":"x"}') == former
    assert [Manifest.decode(each.encode()) for each in (MANIFEST, former)] == [MANIFEST, former]


def test_no_flipped_bit_of_a_manifest_is_believed() -> None:
    value = MANIFEST.encode()
    for position in range(len(value)):
        for bit in range(8):
            damaged = bytearray(value)
            damaged[position] ^= 1 << bit
            try:
                found = Manifest.decode(bytes(damaged))
                assert replace(found, cut=False) == MANIFEST  # the name of the checksum
            except (CorruptLog, NewerFormat):
                continue


async def test_only_the_partition_of_a_damaged_manifest_is_refused() -> None:
    bed = await open_bed()
    for partition in range(3):
        for number in range(5):
            await put(bed.log(partition), b"%d %d" % (partition, number))
    await crash(bed)
    path = manifest_path(PartitionKey("topic-uuid", 1))
    stored = bed.storage.records[path].record
    damaged = stored.value.replace(b'"epoch":1', b'"epoch":0')
    assert damaged != stored.value
    bed.storage.records[path].record = bed.storage.record(damaged, stored.version)
    again = await open_bed(bed.storage)
    for partition in (0, 2):
        assert await put(again.log(partition), b"more") == 5
        assert len(await payloads(again.log(partition))) == 6
    for call in (put(again.log(1), b"more"), payloads(again.log(1), 0), payloads(again.log(1))):
        with pytest.raises(CorruptLog, match=f"{path}: .*checksum mismatch"):
            await call
    await again.store.close()
