"""Copies the positions of consumer groups, as the offsets of the same messages at the target."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from opentalos.cli.migrate.plan import NO_CHECKPOINT, Move, move_for
from opentalos.cli.migrate.sides import Sides, at
from opentalos.cli.migrate.state_file import CopiedTopic
from opentalos.model.errors import ConsumerGroupNotExist
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.core.values import TopicRef


@dataclass(slots=True)
class Moved:
    """What happened with the positions of a topic, in partitions of groups."""

    set: int = 0
    same: int = 0
    kept: list[str] = field(default_factory=list)  # groups that have moved at the target
    busy: list[str] = field(default_factory=list)  # groups with workers at the target
    foreign: list[str] = field(default_factory=list)  # groups of other tenants
    restarted: list[str] = field(default_factory=list)  # have read none of the copied messages


def mapped(state: CopiedTopic, partition: int, checkpoint: int) -> int:
    """The checkpoint at the target: of the message before the one that the group reads next."""
    if checkpoint == NO_CHECKPOINT:
        return NO_CHECKPOINT
    copied = state.partition(partition)
    return copied.map.target_of(checkpoint + 1, copied.copied) - 1


@dataclass(slots=True)
class PositionCopy:
    """The groups of one topic."""

    sides: Sides
    source: TopicRef
    target: TopicRef
    state: CopiedTopic
    moved: Moved = field(default_factory=Moved)

    async def run(self) -> Moved:
        """Set what differs, except where a group has already moved at the target."""
        groups = await checkpoints(self.sides, "source", self.source)
        there = await checkpoints(self.sides, "target", self.target)
        for group, found in sorted(groups.items()):
            if "/" in group:  # TENANT/NAME: only that tenant can join it
                self.moved.foreign.append(group)
                continue
            await self._group(group, found, there.get(group, {}))
        return self.moved

    async def _group(
        self, group: str, found: Mapping[int, int], present: Mapping[int, int]
    ) -> None:
        written = self.state.positions.setdefault(group, {})
        wanted: dict[int, int] = {}
        for partition, checkpoint in found.items():
            goal, now = mapped(self.state, partition, checkpoint), present.get(partition, -1)
            move = move_for(goal, now, written.get(partition))
            if checkpoint != goal == NO_CHECKPOINT and group not in self.moved.restarted:
                self.moved.restarted.append(group)
            if move is Move.SAME:
                written[partition] = goal
                self.moved.same += checkpoint != NO_CHECKPOINT
            elif move is Move.KEEP:
                if group not in self.moved.kept:
                    self.moved.kept.append(group)
            elif goal != NO_CHECKPOINT:
                wanted[partition] = goal
        if wanted:
            await self._set(group, wanted, written)

    async def _set(self, group: str, wanted: Mapping[int, int], written: dict[int, int]) -> None:
        """As a worker of the group, by calls that every server has."""
        with at("target", self.sides.target, self.target.name):
            worker = f"migrate-{secrets.token_hex(6)}"
            member = GroupMember(self.sides.target, self.target, group, worker)
            await member.register()
            locked = await member.lock(sorted(wanted))
            try:
                for partition in locked:
                    if await member.commit(partition, wanted[partition]):
                        written[partition] = wanted[partition]
                        self.moved.set += 1
            finally:
                await member.leave(locked)
        if len(locked) < len(wanted):
            self.moved.busy.append(group)


async def checkpoints(sides: Sides, side: str, ref: TopicRef) -> dict[str, dict[int, int]]:
    """The checkpoints of all groups of a topic, by partition; -1: none."""
    here = side == "source"
    admin = sides.source_admin if here else sides.target_admin
    with at(side, sides.source if here else sides.target, ref.name):
        try:
            found = await admin.groups.lags(ref)
        except ConsumerGroupNotExist:
            return {}
    return {group: {lag.partition: lag.checkpoint for lag in lags} for group, lags in found.items()}
