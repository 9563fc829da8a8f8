"""A whole migration: topics, permissions, messages, then positions; in rounds with ``follow``."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opentalos.cli.migrate.copy import PARTITIONS_AT_ONCE, Pace, PartitionCopy
from opentalos.cli.migrate.plan import (
    Action,
    action_for,
    chosen_names,
    producer_id_of,
    wanted_grants,
)
from opentalos.cli.migrate.positions import Moved, PositionCopy, checkpoints
from opentalos.cli.migrate.sides import Sides, at
from opentalos.cli.migrate.state_file import CopiedTopic, StateFile
from opentalos.cli.migrate.verify import TopicCheck
from opentalos.model.errors import BadRequest, TalosError, TopicNotExist
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.sdk.aio.producer.idempotent_put import deduplicates
from opentalos.sdk.core.values import TopicDescription, TopicRef

_SAVE_S: Final = 1.0  # between two writes of the state file
_ROUND_S: Final = 0.5  # pause after a round of ``follow`` that copied nothing


@dataclass(slots=True)
class PlannedTopic:
    """One topic, as found on both sides."""

    name: str
    source: TopicDescription
    target: TopicDescription | None
    action: Action
    groups: int
    copied: int = 0  # messages of this run
    moved: Moved = field(default_factory=Moved)

    @property
    def row(self) -> dict[str, Any]:
        """For ``--dry-run``."""
        return {
            "topic": self.name, "action": str(self.action), "partitions": self.source.partitions,
            "messages": self.source.messages, "bytes": self.source.bytes_count,
            "groups": self.groups,
        }  # fmt: skip

    @property
    def result(self) -> dict[str, Any]:
        """After the run."""
        moved = self.moved
        return {
            "topic": self.name, "copied": self.copied, "positions_set": moved.set,
            "kept": moved.kept, "busy": moved.busy, "other_tenants": moved.foreign,
            "restarted": moved.restarted,
        }  # fmt: skip


@dataclass(slots=True)
class Migration:
    """What is common to all topics. ``progress`` gets the messages done and their total."""

    sides: Sides
    file: StateFile
    pace: Pace
    progress: Callable[[int, int], None] = lambda _done, _total: None
    _done: int = 0
    _total: int = 0
    _saved_s: float = 0.0

    async def plan(self, patterns: Sequence[str]) -> list[PlannedTopic]:
        """Decide for each topic. Raises: BadRequest: one cannot be copied; nothing was changed."""
        with at("source", self.sides.source):
            found = [info.name for info in await self.sides.source_admin.topics.list()]
        names = chosen_names(patterns, found)
        with at("target", self.sides.target):
            for name in names[:1]:
                await deduplicates(self.sides.target, name, True)
        return [await self._plan_topic(name) for name in names]

    async def _plan_topic(self, name: str) -> PlannedTopic:
        with at("source", self.sides.source, name):
            source = await self.sides.source_admin.topics.describe(name)
            ref = await self.sides.source.topic(name)
        plain = source.info.name
        with at("target", self.sides.target, plain):
            try:
                target = await self.sides.target_admin.topics.describe(plain)
            except TopicNotExist:
                target = None
        action = action_for(source, target, self.file.state.topics.get(plain))
        groups = await checkpoints(self.sides, "source", ref)
        return PlannedTopic(name, source, target, action, len(groups))

    async def prepare(self, topic: PlannedTopic) -> None:
        """Create the topic if it is not there, and make its settings and permissions equal."""
        source, plain = topic.source, topic.source.info.name
        admin = self.sides.target_admin
        with at("target", self.sides.target, plain):
            if topic.target is None:
                await admin.topics.create(
                    plain, partitions=source.partitions, retention_s=source.retention_s,
                    attributes=source.attributes,
                )  # fmt: skip
            target = topic.target = await admin.topics.describe(plain)
        known = self.file.state.topics.get(plain)
        if known is None:
            pair = CopiedTopic(source.info.resource, target.info.resource)
            self.file.state.topics[plain] = pair
            self.file.save()
        with at("target", self.sides.target, plain):
            await self._settings(source, target)
        await self._permissions(topic, target)

    async def _settings(self, source: TopicDescription, target: TopicDescription) -> None:
        plain, admin = source.info.name, self.sides.target_admin
        changed = {
            key: value
            for key, value in source.attributes.items()
            if target.attributes.get(key) != value
        }
        if changed or source.retention_s != target.retention_s:
            await admin.topics.change(
                plain, retention_s=source.retention_s, attributes=changed or None
            )
        if source.info.owner_name and source.info.owner_name != target.info.owner_name:
            await admin.topics.set_owner(plain, source.info.owner_name)

    async def _permissions(self, topic: PlannedTopic, target: TopicDescription) -> None:
        owners = topic.source.info.owner, target.info.owner
        wanted, present = wanted_grants(topic.source, *owners), wanted_grants(target, *owners)
        plain = topic.source.info.name
        for who, mask in wanted.items():
            if present.get(who) != mask:
                grantee = await self._grantee(topic.name, who, mask)
                with at("target", self.sides.target, plain):
                    await self.sides.target_admin.permissions.grant(plain, grantee, mask)
        for who in present.keys() - wanted.keys():
            with at("target", self.sides.target, plain):
                await self.sides.target_admin.permissions.revoke(plain, who)

    async def _grantee(self, name: str, who: str, mask: Permission) -> Grantee:
        """With its type, which lists leave out."""
        permissions = self.sides.source_admin.permissions
        with at("source", self.sides.source, name):
            for kind in GrantType:
                try:
                    if await permissions.get(name, Grantee(kind, who)) == mask:
                        return Grantee(kind, who)
                except BadRequest:  # no identifier of that type
                    continue
        return Grantee(GrantType.DEVELOPER, who)

    async def copy(self, topics: Sequence[PlannedTopic]) -> int:
        """Copy what the sources have now, then the positions. Returns: how many messages."""
        self._done, self._total = 0, sum(topic.source.messages for topic in topics)
        copied = 0
        for topic in topics:
            copied += (found := await self._copy_topic(topic))
            topic.copied += found
            topic.moved = await self._positions(topic)
        return copied

    async def follow(self, topics: Sequence[PlannedTopic], settle_s: float) -> None:
        """Copy until nothing new has come for ``settle_s``."""
        quiet_s = time.monotonic()
        while True:
            if await self.copy(topics):
                quiet_s = time.monotonic()
            elif time.monotonic() >= quiet_s + settle_s:
                return
            else:
                await asyncio.sleep(min(_ROUND_S, settle_s))

    async def _copy_topic(self, topic: PlannedTopic) -> int:
        source, target = await self._refs(topic)
        state = self.file.state.topics[topic.source.info.name]
        room = asyncio.Semaphore(PARTITIONS_AT_ONCE)
        producer_id = producer_id_of(source.resource, target.resource)

        async def one(number: int) -> int:
            async with room:
                copy = PartitionCopy(
                    self.sides, source, target, number, producer_id, state.partition(number),
                    self.pace, self.file.save, self._count,
                )  # fmt: skip
                return await copy.run()

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(number)) for number in range(source.partitions)]
        except BaseExceptionGroup as group_error:
            raise _first(group_error) from None
        finally:
            self.file.save()
        return sum(task.result() for task in tasks)

    async def _positions(self, topic: PlannedTopic) -> Moved:
        source, target = await self._refs(topic)
        state = self.file.state.topics[topic.source.info.name]
        try:
            moved = await PositionCopy(self.sides, source, target, state).run()
        finally:
            self.file.save()
        moved.set += topic.moved.set  # of earlier rounds
        return moved

    async def check(self, topics: Sequence[PlannedTopic]) -> AsyncIterator[dict[str, Any]]:
        """The rows of the comparison. Raises: BadRequest: a topic was not copied."""
        for topic in topics:
            plain = topic.source.info.name
            state = self.file.state.topics.get(plain)
            if topic.target is None or state is None:
                raise BadRequest(f"topic {plain} was not copied yet; run talos migrate first")
            source, target = await self._refs(topic)
            check = TopicCheck(self.sides, topic.source, topic.target, source, target, state)
            async for row in check.rows():
                yield row

    async def _refs(self, topic: PlannedTopic) -> tuple[TopicRef, TopicRef]:
        plain = topic.source.info.name
        with at("source", self.sides.source, plain):
            source = await self.sides.source.topic(topic.name)
        with at("target", self.sides.target, plain):
            target = await self.sides.target.topic(plain)
        known = self.file.state.topics[plain]
        if (source.resource, target.resource) != (known.source, known.target):
            raise BadRequest(f"topic {plain} was deleted and created again during the migration")
        return source, target

    def _count(self, messages: int) -> None:
        self._done += messages
        self.progress(self._done, max(self._total, self._done))
        if time.monotonic() >= self._saved_s + _SAVE_S:
            self.file.save()
            self._saved_s = time.monotonic()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of partitions that were copied at the same time."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = next(
            (error for error in found.exceptions if isinstance(error, TalosError)),
            found.exceptions[0],
        )
    return found
