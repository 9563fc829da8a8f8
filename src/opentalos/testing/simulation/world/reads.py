"""Notes of what servers return to readers, for the check of egress."""

from opentalos.broker.quota.egress import EgressCounters
from opentalos.broker.values import Topic
from opentalos.model.identity import Principal
from opentalos.model.names import SYSTEM_TENANT
from opentalos.testing.simulation.history import Recorder


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
