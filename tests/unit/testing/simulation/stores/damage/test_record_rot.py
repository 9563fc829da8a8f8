"""One bit of each kind of record flips, and an end that is flipped looks like another end."""

import json
import random

from tests.unit.testing.simulation.stores.damage.scene import manifest, new_disk

from opentalos.adapters.memory.storage import StoredRecord
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.damage.record_rot import Flipped, flip_record

MANIFEST = manifest((0, 1, 40), (40, 1, 77))
RECORDS = {"log/topic/0": MANIFEST, "topics/a": b'{"name":"a"}', "clock/s1": b'{"ms":1}'}


def flip(seed: int, former: dict[str, Flipped]) -> Flipped | None:
    loop = SimulationLoop()
    disk = new_disk(loop)
    for path, value in {**RECORDS, **{path: each.after for path, each in former.items()}}.items():
        disk.records.records[path] = StoredRecord(disk.records.record(value, 1))
    try:
        return flip_record(disk, random.Random(seed), former)
    finally:
        loop.close()


def test_exactly_one_bit_of_any_kind_of_record_flips() -> None:
    seen, ends = set(), set()
    for seed in range(80):
        flipped = flip(seed, {})
        assert flipped is not None
        before = flipped.before.record.value
        assert before == RECORDS[flipped.path]
        bits = [(one ^ other).bit_count() for one, other in zip(before, flipped.after, strict=True)]
        assert sum(bits) == 1
        seen.add(flipped.path)
        if flipped.path == "log/topic/0":
            try:
                ends.add(json.loads(flipped.after)["segments"][-1][2])
            except (ValueError, LookupError, TypeError):
                continue
    assert seen == set(RECORDS)
    assert len(ends - {77}) > 2, "the log seems to end elsewhere"


def test_a_record_flips_once() -> None:
    former: dict[str, Flipped] = {}
    for seed in range(len(RECORDS)):
        flipped = flip(seed, former)
        assert flipped is not None
        former[flipped.path] = flipped
    assert set(former) == set(RECORDS)
    assert flip(0, former) is None
