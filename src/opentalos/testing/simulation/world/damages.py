"""Damages: what is stored comes back older, shorter or with a flipped bit, at a start.

    damages = Damages(stage, faults)      # before the first server starts
    ...                                   # the servers end
    damages.go_back()                     # and start again

Each damage is noted for every partition that it may concern, so that the checker excuses these and
no others: they may refuse to answer. What a manifest named before must stay (``GoodFiles``).
"""

import json
import random
from collections.abc import Iterator
from typing import Protocol

from opentalos.model.errors import CorruptLog
from opentalos.testing.simulation.history import Recorder, flushed_topics
from opentalos.testing.simulation.stores.damage.good_files import GoodFiles, read_by_groups
from opentalos.testing.simulation.stores.damage.past_records import CHANGES_MAX, PastRecords
from opentalos.testing.simulation.stores.damage.record_rot import Flipped, flip_record
from opentalos.testing.simulation.stores.damage.rot import rotten_by
from opentalos.testing.simulation.stores.damage.shorter import INDEX_SUFFIX, shorten
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.stored_logs import MANIFESTS, Partition, partition_of
from opentalos.testing.simulation.world.witness import Heard

WHOLE = 0.5  # of the stores that go back; of the others only one partition's manifest does
FEW = 0.7  # of them go back by few changes
FEW_CHANGES_MAX = 6
TOPICS = "topics/"


class Stage(Protocol):
    """What it needs of a world."""

    disk: SimulatedDisk
    recorder: Recorder


class Damages:
    """Draws from a generator of its own."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self._stage, self._rng = stage, rng
        self._past = PastRecords(stage.disk.records)
        self.good = GoodFiles(stage.disk)
        self._flipped: dict[str, Flipped] = {}

    def go_back(self, *, whole: bool = False) -> None:
        """Undo some of the last changes of the meta store, or of one partition's manifest."""
        rng = self._rng
        few = rng.random() < FEW
        count = rng.randint(1, FEW_CHANGES_MAX if few else CHANGES_MAX)
        manifests = self._past.changed(MANIFESTS)
        whole = rng.random() < WHOLE or whole or not manifests
        newest = self._past.undo(count, "" if whole else rng.choice(manifests))
        self._stage.recorder.note("store-older", paths=sorted(newest))
        for partition, manifest in self._concerned(newest).items():
            self.good.keep(partition, manifest)
            self.good.went_back(partition, self._epoch(partition))
            self._note("older", partition, f"{MANIFESTS}{partition[0]}/{partition[1]}")

    def shorten(self) -> None:
        """Empty or cut a file. A side index can be made again, so that concerns nobody."""
        cut = shorten(self._stage.disk)
        if cut is None:
            return
        path = cut.path
        self._stage.recorder.note("file-shorter", path=path)
        self.good.forget_lost(path, cut.before)
        for found in rotten_by(self._stage.disk, path):
            key = (found.topic, found.partition)
            self.good.keep(key, self._manifest(key))
            if not path.endswith(INDEX_SUFFIX):
                self._note("shorter", key, path)

    def flip(self) -> None:
        """Flip a bit of a record."""
        flipped = flip_record(self._stage.disk, self._rng, self._flipped)
        if flipped is None:
            return
        self._flipped[flipped.path] = flipped
        self._stage.recorder.note("record-rot", path=flipped.path)
        partition = partition_of(flipped.path)
        if partition is not None:
            self.good.keep(partition, flipped.before.record.value)
            self._note("rot", partition, flipped.path)

    def repair(self, error: Exception) -> None:
        """A server did not start: an operator repairs the record that it names, if it names one."""
        for flipped in list(self._flipped.values()):
            if isinstance(error, CorruptLog) and flipped.path in str(error):
                self._stage.disk.records.records[flipped.path] = flipped.before
                self._stage.recorder.note("record-repaired", path=flipped.path)

    def hear(self, heard: Heard) -> None:
        """A server said that a log continues without something."""
        disk = self._stage.disk
        partition = (heard.topic, heard.partition)
        concerned = [partition]
        if heard.journal:
            concerned = list(disk.records.journals.get(heard.journal, ()))
        # What is proven to be acknowledged must be refused.
        flushed, proven = self._flushed(heard.topic), False
        if heard.path:
            proven = self.good.is_proven(heard.path, flushed=flushed)
        elif heard.offset and not flushed:
            proven = read_by_groups(disk, partition) > heard.offset
        more = {"proven": True} if proven else {}
        for topic, number in concerned:
            self._stage.recorder.note(heard.kind, topic=topic, partition=number, **more)

    def _flushed(self, topic_uuid: str) -> bool:
        flushed = flushed_topics(self._stage.recorder.history)
        return any(topic.endswith(topic_uuid) for topic in flushed)

    def _note(self, kind: str, partition: Partition, path: str) -> None:
        topic, number = partition
        self._stage.recorder.note(kind, topic=topic, partition=number, path=path)

    def _concerned(self, newest: dict[str, bytes]) -> dict[Partition, bytes]:
        """Partitions whose manifest or topic is older, with the newest manifest."""
        found: dict[Partition, bytes] = {}
        topics = {path: value for path, value in newest.items() if path.startswith(TOPICS)}
        for path, value in topics.items():
            for partition in self._partitions(path, value):
                found[partition] = self._manifest(partition)
        for path, value in newest.items():
            named = partition_of(path)
            if named is not None:
                found[named] = value
        return found

    def _partitions(self, path: str, value: bytes) -> Iterator[Partition]:
        """All that a topic has or had."""
        now = self._stage.disk.records.records.get(path)
        for each in (value, b"" if now is None else now.record.value):
            if not each:
                continue
            topic = json.loads(each)
            for number in range(topic["partitions_ever"]):
                yield str(topic["uuid"]), number

    def _manifest(self, partition: Partition) -> bytes:
        topic, number = partition
        stored = self._stage.disk.records.records.get(f"{MANIFESTS}{topic}/{number}")
        return b"" if stored is None else stored.record.value

    def _epoch(self, partition: Partition) -> int:
        manifest = self._manifest(partition)
        return int(json.loads(manifest)["epoch"]) if manifest else 0
