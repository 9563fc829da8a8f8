"""GroupResetService: sets a group's checkpoints to a start, an end, a time or given offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.metrics import MetricService
from opentalos.broker.messaging.messages import MessageService
from opentalos.broker.peer_rpc.remote_logs import PartitionFacts
from opentalos.broker.values import CheckpointKey
from opentalos.group.row_format import NO_CHECKPOINT
from opentalos.model.errors import (
    OutcomeUnknown,
    PartitionNotExist,
    TalosError,
    UnexpectedOffset,
)
from opentalos.model.identity import Principal


class ResetTo(Enum):
    """Where a group continues: at the first retained message, or at the next new one."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class ResetTime:
    """The group continues at the first message stored at this Unix time (ms) or later."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Checkpoints by partition: the last message that counts as processed; -1: none. Partitions
    that are left out stay as they are."""

    offsets: Mapping[int, int]


ResetTarget = ResetTo | ResetTime | ResetOffsets


class PartitionReset(NamedTuple):
    """A partition's checkpoint before and after; -1: none."""

    partition: int
    before: int
    after: int


class GroupResetService:
    """Computes checkpoints and sets them; a dry run only computes."""

    def __init__(
        self, messages: MessageService, consumers: ConsumerService, metrics: MetricService
    ) -> None:
        self._messages, self._consumers, self._metrics = messages, consumers, metrics

    async def reset(
        self, caller: Principal, group: str, resource: str, target: ResetTarget, *, dry_run: bool
    ) -> Sequence[PartitionReset]:
        """Set the checkpoints, revoking the leases of those partitions; audited.

        Raises: ConsumerGroupNotExist, PermissionDenied, PartitionNotExist, UnexpectedOffset;
            CorruptLog: a partition is damaged, and where the target is depends on what is lost;
            OutcomeUnknown: some partitions were set. Setting them again is safe.
        """
        await self._consumers.query_workers(caller, group, resource)  # checks the caller's tenant
        units = await self._metrics.consume_unit(caller, group, resource)
        before = {unit.partition: unit.checkpoint for unit in units}
        after = await self._checkpoints(caller, resource, target, before)
        found = [
            PartitionReset(partition, before[partition], after[partition])
            for partition in sorted(after)
        ]
        if dry_run:
            return found
        for index, change in enumerate(found):
            key = CheckpointKey(group, resource, change.partition)
            try:
                await self._consumers.reset_checkpoint(caller, key, change.after)
            except TalosError as error:
                if index == 0:
                    raise
                text = f"{index} of {len(found)} partitions were reset, then one failed: {error}"
                raise OutcomeUnknown(text) from error
        return found

    async def _checkpoints(
        self,
        caller: Principal,
        resource: str,
        target: ResetTarget,
        before: Mapping[int, int],
    ) -> Mapping[int, int]:
        partitions = list(before)
        if isinstance(target, ResetOffsets):
            partitions = list(target.offsets)
            missing = [partition for partition in partitions if partition not in before]
            if missing:
                raise PartitionNotExist(f"the topic has no partition {missing[0]}")
        facts = await self._facts(caller, resource, partitions)
        if isinstance(target, ResetOffsets):
            for partition, offset in target.offsets.items():
                _check_end(partition, offset, facts[partition])
            return target.offsets
        if isinstance(target, ResetTime):
            times = dict.fromkeys(partitions, target.time_ms)
            found = await self._messages.offsets_at(caller, resource, times)
            return {partition: found[partition] - 1 for partition in partitions}
        if target is ResetTo.START:
            return {partition: facts[partition].offsets.start - 1 for partition in partitions}
        for fact in facts.values():
            if fact.damage is not None:
                raise fact.damage
        return {partition: facts[partition].offsets.end for partition in partitions}

    async def _facts(
        self, caller: Principal, resource: str, partitions: Sequence[int]
    ) -> Mapping[int, PartitionFacts]:
        found = await self._messages.facts_of(caller, resource, partitions)
        facts: dict[int, PartitionFacts] = {}
        for partition, fact in zip(partitions, found, strict=True):
            if isinstance(fact, TalosError):
                raise fact
            facts[partition] = fact
        return facts


def _check_end(partition: int, offset: int, fact: PartitionFacts) -> None:
    """Raises: UnexpectedOffset: no such message; CorruptLog: it is not known whether there is."""
    if NO_CHECKPOINT <= offset < fact.offsets.next:
        return
    if fact.damage is not None and offset >= fact.offsets.next:
        raise fact.damage
    raise UnexpectedOffset(f"checkpoint {offset} of partition {partition} is beyond the log's end")
