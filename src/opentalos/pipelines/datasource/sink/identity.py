"""A task's identity as an idempotent producer: the id and epoch that a retry reproduces.

A stream's task is the same producer in all batches; its epoch is the number of the batch plus one.
So a repeated batch sends the same stamps, and late puts of an older batch are fenced (promise I7).
See docs/adr/0010-exactly-once-from-spark.md.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import BadRequest
from opentalos.model.message import PRODUCER_ID_MAX

# Of a write that another run may repeat as a whole. Half of the producers that the log remembers of
# a principal and partition (log/segment/producers.py): its tasks do not evict each other, and
# other producers have room. Tasks of any other write are repeated soon or never.
TASKS_MAX: Final = 500
EPOCH_MAX: Final = (1 << 31) - 1  # idl/opentalos.thrift: producerEpoch is an i32
RUNS_REMEMBERED: Final = 100  # of streams, in one process
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """Spark's facts about the task that writes."""

    task: int  # number of the partition of the DataFrame
    attempt: int  # from 0, also again in each new attempt of its stage
    speculation: bool = False  # two attempts may run at once
    query_id: str = ""  # of a stream, the same after a restart from its checkpoint; "": no stream
    run_id: str = ""  # of this start of the query
    batch_id: int = -1


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of one task attempt, from which its stamps are made."""

    name: tuple[str, ...]
    task: int
    epoch: int
    earlier_run: bool  # an earlier run of the query may have sent its rows
    retry: bool  # an earlier attempt of the task may have sent them
    compares_all: bool  # also what is stored above the floor may be another attempt's

    @property
    def repeated(self) -> bool:
        """Whether its rows may have been sent before."""
        return self.earlier_run or self.retry

    def producer_id(self, resource: str) -> int:
        """The producer id in one topic; a topic that is created again has new ids."""
        hashed = hashlib.sha256()
        for part in (*self.name, resource, str(self.task)):
            data = part.encode()
            hashed.update(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        number = int.from_bytes(hashed.digest()[:_LENGTH_BYTES], "big")
        return number % PRODUCER_ID_MAX + 1


class Runs:
    """The runs of streams that have written a batch in this process.

    Only the first batch of a run may have been attempted by an earlier run; a process that has
    written an earlier batch of the run knows that this one is new.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[str, int] = OrderedDict()  # by run id

    def forget(self) -> None:
        """Reset to the state of a new process."""
        self._first.clear()

    def may_be_replayed(self, facts: TaskFacts) -> bool:
        """Whether an earlier run may have attempted this batch.

        False for the very first batch of a query: the log then accepts an unknown producer.
        """
        first = self._first.setdefault(facts.run_id, facts.batch_id)
        self._first.move_to_end(facts.run_id)
        while len(self._first) > RUNS_REMEMBERED:
            self._first.popitem(last=False)
        return 0 < facts.batch_id <= first


RUNS: Final = Runs()  # of this process


def identity_of(
    facts: TaskFacts, *, streaming: bool, write_id: str, token: str, runs: Runs = RUNS
) -> Identity:
    """The identity of a task attempt.

    Args:    streaming: the sink of a stream; a write inside foreachBatch has the identity of its
             batch if it has a ``write_id``; token: random, of one job.
    Raises:  BadRequest: more tasks or batches than can be distinguished.
    """
    retry = facts.attempt > 0
    compares_all = retry or facts.speculation
    in_stream = streaming or bool(write_id and facts.query_id)
    if facts.task >= TASKS_MAX and (in_stream or write_id):
        raise BadRequest(
            f"the write has a task {facts.task}: a stream and a write with a writeId may be "
            f"repeated by another run, and the log recognizes at most {TASKS_MAX} tasks then; "
            f"coalesce({TASKS_MAX}) the DataFrame, or write with delivery = at-least-once"
        )
    if not in_stream:
        named = ("write", write_id) if write_id else ("job", token)
        return Identity(named, facts.task, 0, False, retry, compares_all)
    if not facts.query_id or not 0 <= facts.batch_id < EPOCH_MAX:
        raise BadRequest(
            f"batch {facts.batch_id} of query {facts.query_id!r} has no valid producer epoch"
        )
    name = ("stream", facts.query_id, write_id)
    earlier_run = runs.may_be_replayed(facts)
    return Identity(name, facts.task, facts.batch_id + 1, earlier_run, retry, compares_all)


def forgetful_identity(facts: TaskFacts, token: str) -> Identity:
    """For at least once: a new identity in every attempt, so repeated puts are stored again."""
    return Identity(("attempt", token), facts.task, 0, False, False, False)
