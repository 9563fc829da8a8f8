"""What servers of a world meter, and notes of what they return and drop, for the checks of it."""

from collections.abc import Callable
from dataclasses import replace

from opentalos.broker.quota.egress import EgressCounters
from opentalos.broker.values import Topic
from opentalos.model.identity import Principal
from opentalos.model.limits import MeteringSettings
from opentalos.model.names import SYSTEM_TENANT
from opentalos.testing.simulation.history import Recorder
from opentalos.testing.simulation.stores.stored_logs import Partition, WatchedRecords
from opentalos.testing.simulation.world.clock import EPOCH_MS, MS_PER_S

METERING = MeteringSettings(
    interval_s=0.7, partitions=1, egress=False, storage=False, storage_interval_s=12.0
)


def metering_of(egress: bool, storage: bool) -> MeteringSettings:
    """What the servers of a world meter, if they do."""
    return replace(METERING, egress=egress, storage=storage)


def note_moves(records: WatchedRecords, recorder: Recorder, time_s: Callable[[], float]) -> None:
    """Note when a stored manifest has a larger start offset, by the true time."""

    def moved(partition: Partition, start: int) -> None:
        at_ms = EPOCH_MS + round(time_s() * MS_PER_S)
        place = {"topic": partition[0], "partition": partition[1]}
        recorder.note("moved-start", **place, start=start, at_ms=at_ms)

    records.moved = moved


def note_reads(egress: EgressCounters | None, recorder: Recorder) -> None:
    """Note each read that these counters count; without counters nothing."""
    if egress is None:
        return
    add = egress.add

    def noted(topic: Topic, caller: Principal, messages: int, bytes_count: int) -> None:
        if topic.owner != SYSTEM_TENANT and bytes_count:
            recorder.note("read", topic=topic.uuid, reader=caller.owner_id, bytes=bytes_count)
        add(topic, caller, messages, bytes_count)

    egress.add = noted  # type: ignore[method-assign]
