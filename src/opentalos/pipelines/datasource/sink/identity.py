"""Who a task is to the log: the id and epoch that a retry of it makes again.

A stream's task is the same producer in all batches; its epoch is the number of the batch and one.
So a batch that is written again sends the same stamps, and what is left over of an older one is
fenced. See docs/adr/0010-exactly-once-from-spark.md.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import BadRequest
from opentalos.model.message import PRODUCER_ID_MAX

# Half of the producers that the log keeps of a partition (log/segment/producers.py), so that the
# tasks of one write do not make it forget each other, and others may put there as well.
TASKS_MAX: Final = 500
EPOCH_MAX: Final = (1 << 31) - 1  # idl/opentalos.thrift: producerEpoch is an i32
RUNS_REMEMBERED: Final = 100  # of streams, in one process
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What Spark says of the task that writes."""

    task: int  # number of the partition of the DataFrame
    attempt: int  # 0: the first one
    speculation: bool = False  # two attempts may run at a time
    query_id: str = ""  # of a stream, the same after a restart from its checkpoint; "": no stream
    run_id: str = ""  # of this start of the query
    batch_id: int = -1


@dataclass(frozen=True, slots=True)
class Identity:
    """What the stamps of one task attempt are made of."""

    name: tuple[str, ...]
    task: int
    epoch: int
    earlier_run: bool  # its rows may have been sent by an earlier run of the query
    retry: bool  # they may have been sent by an earlier attempt of the task
    compares_all: bool  # another attempt's blocks may lie among its own

    @property
    def repeated(self) -> bool:
        """Whether what it sends may have been sent before."""
        return self.earlier_run or self.retry

    def producer_id(self, resource: str) -> int:
        """The id in one topic; a topic that is made anew knows no producer."""
        hashed = hashlib.sha256()
        for part in (*self.name, resource, str(self.task)):
            data = part.encode()
            hashed.update(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        number = int.from_bytes(hashed.digest()[:_LENGTH_BYTES], "big")
        return number % PRODUCER_ID_MAX + 1


class Runs:
    """Which runs of streams have written a batch in this process.

    Only the first batch of a run may have been tried before that run; a process that knows an
    earlier batch of it knows that this one was not.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[str, int] = OrderedDict()  # by run id

    def forget(self) -> None:
        """As a new process."""
        self._first.clear()

    def may_be_replayed(self, facts: TaskFacts) -> bool:
        """Whether an earlier run may have tried this batch. The first batch of all may be as well,
        but then the log has to take producers that it does not know."""
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

    Args:    streaming: the sink of a stream; a write inside foreachBatch counts with its batch if
             it has a ``write_id``; token: random, of one job.
    Raises:  BadRequest: more tasks or batches than can be told apart.
    """
    if facts.task >= TASKS_MAX:
        raise BadRequest(
            f"task {facts.task} of a write: at most {TASKS_MAX} can be told apart; "
            f"coalesce({TASKS_MAX}) the DataFrame, or write with delivery = at-least-once"
        )
    retry, compares_all = facts.attempt > 0, facts.attempt > 0 or facts.speculation
    if not (streaming or (write_id and facts.query_id)):
        named = ("write", write_id) if write_id else ("job", token)
        return Identity(named, facts.task, 0, False, retry, compares_all)
    if not facts.query_id or not 0 <= facts.batch_id < EPOCH_MAX:
        raise BadRequest(f"batch {facts.batch_id} of query {facts.query_id!r} cannot be told apart")
    name = ("stream", facts.query_id, write_id)
    earlier_run = runs.may_be_replayed(facts)
    return Identity(name, facts.task, facts.batch_id + 1, earlier_run, retry, compares_all)


def forgetful_identity(facts: TaskFacts, token: str) -> Identity:
    """For at least once: another one in every attempt, so that nothing is recognised."""
    return Identity(("attempt", token), facts.task, 0, False, False, False)
