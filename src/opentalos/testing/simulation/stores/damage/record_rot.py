"""One bit of a stored record flips: of a manifest, a record of the catalogue, a server's clock.

Rows are left out: their format has no checksum of its own, and the store's does not exist here
(adapters/sqlite/checksum.py has tests of its own).
"""

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from opentalos.adapters.memory.storage import StoredRecord
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.stored_logs import MANIFESTS

KINDS = (MANIFESTS, "topics/", "clock/")
END_SHARE = 0.4  # of the flips in a manifest, in the number that says where the log ends
# The last row of a manifest, if that segment is sealed: [base offset, epoch, next offset, ...
_END = re.compile(rb'.*\[\d+,\d+,(\d+),[^\[\]]*\]\],"', re.DOTALL)


class Flipped(NamedTuple):
    """A record with a flipped bit, and what it was before."""

    path: str
    before: StoredRecord
    after: bytes


def flip_record(
    disk: SimulatedDisk, rng: random.Random, former: Mapping[str, Flipped]
) -> Flipped | None:
    """Flip one bit in the value of a record; None: there is none.

    Args: former: records that have a flipped bit, unless they were written since.
    """
    records = disk.records.records
    whole = [
        path
        for path, stored in records.items()
        if path not in former or former[path].after != stored.record.value
    ]
    kinds = [
        found for kind in KINDS if (found := [path for path in whole if path.startswith(kind)])
    ]
    if not kinds:
        return None
    path = rng.choice(rng.choice(kinds))
    stored = records[path]
    value = bytearray(stored.record.value)
    ends = _END.match(value) if path.startswith(MANIFESTS) and rng.random() < END_SHARE else None
    if ends is not None:
        value[rng.randrange(*ends.span(1))] ^= 1 << rng.randrange(3)  # it stays a digit, or nearly
    else:
        value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
    records[path] = StoredRecord(replace(stored.record, value=bytes(value)), stored.owner)
    return Flipped(path, stored, bytes(value))
