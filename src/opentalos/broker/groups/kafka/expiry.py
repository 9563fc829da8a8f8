"""KafkaGroupExpiry: background task that deletes groups of Kafka clients that nobody uses.

A group expires on each of its topics by itself, as offsets do in Kafka. Only groups that Kafka
clients made, and no worker has used since, have a time of use in their row; the others stay.
"""

import asyncio
import logging
from typing import Final

from opentalos.broker.audit.trail import Act
from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.kafka.groups import KafkaGroups
from opentalos.broker.groups.kafka.hosted import GroupName
from opentalos.catalog.topics.topic import Topic, TopicStatus
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser, use_time
from opentalos.group.row_format import GroupKey, GroupRow
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    PartitionNotServing,
    TalosError,
)
from opentalos.model.identity import Principal
from opentalos.model.names import SYSTEM_TENANT

_LOG = logging.getLogger("opentalos.group")
# Before the first pass as well: clients return to a server that has just started.
PASS_INTERVAL_S: Final = 3_600.0
PIECE_PAUSE_S: Final = 0.05  # after each page of a topic's groups
_SERVICE: Final = Principal(id=SYSTEM_TENANT, number=0)


class KafkaGroupExpiry:
    """One loop per server, for the groups that it coordinates.

    The row decides: a group is deleted only while its row has the time of use that was found, and
    whoever uses a group after a while writes that time first. So a client that returns either
    keeps its group or finds none, and never commits to a group that is deleted afterwards. While
    the clock is in doubt nothing expires.
    """

    def __init__(
        self, context: BrokerContext, coordinator: Coordinator, groups: KafkaGroups
    ) -> None:
        self._context, self._groups = context, groups
        self._directory, self._rows = coordinator.directory, coordinator.rows
        self._retention_s = context.config.kafka_group.offsets_retention_s
        self._task: asyncio.Task[None] | None = None
        self.expired = 0  # since the start
        use_time(coordinator.directory, context.log.time.append_ms)

    def start(self) -> None:
        """Start the loop."""
        self._task = asyncio.create_task(self._run(), name="expiry of Kafka groups")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run_once(self) -> None:
        """One pass over the groups of all topics, in pieces."""
        if not self._retention_s:
            return
        for topic in list(self._context.topics.all()):
            if topic.status is not TopicStatus.ACTIVE:
                continue
            try:
                await self._check_topic(topic)
            except TalosError as error:
                _LOG.warning("could not expire groups of topic %s: %s", topic.resource, error)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PASS_INTERVAL_S)
            try:
                await self.run_once()
            except Exception:
                # Without this loop groups would stay until the limits refuse new ones.
                _LOG.exception("the expiry of Kafka groups failed, will retry")

    async def _check_topic(self, topic: Topic) -> None:
        async for page in self._rows.group_pages(topic.uuid):
            for group, row in page.items():
                if row.used_ms is not None and not row.deleting:
                    await self._check(topic, GroupKey(topic.uuid, group), row, row.used_ms)
            await asyncio.sleep(PIECE_PAUSE_S)

    async def _check(self, topic: Topic, key: GroupKey, row: GroupRow, used_ms: int) -> None:
        time = self._context.log.time
        now_ms = time.retention_ms()
        if now_ms is None or not self._is_here(key.name):
            return
        user = GroupUser(GroupKey(topic.uuid, key.name), row.tenant, topic.owner)
        retention_s = max(self._retention_s, topic.retention_s)
        try:
            hosted = self._groups.find(GroupName(row.tenant, key.name))
            has_members = hosted is not None and bool(hosted.holders)
            # A time that a wrong clock gave counts from now on.
            if has_members or time.counted_ms(used_ms, now_ms) is not None:
                await self._directory.use(user, kafka=True)
            elif now_ms - used_ms >= retention_s * 1000:
                if await self._directory.delete_group(user, used_ms=used_ms):
                    self._report(topic, user, used_ms)
        except ConsumerGroupWorking:  # so its members are not those of the tenant's group
            await self._directory.use(user, kafka=True)
        except (ConsumerGroupNotExist, PartitionNotServing):
            return  # it is deleted or coordinated elsewhere by now
        except TalosError as error:
            _LOG.warning("could not expire group %s of %s: %s", key.name, topic.resource, error)

    def _report(self, topic: Topic, user: GroupUser, used_ms: int) -> None:
        self.expired += 1
        named = f"{user.tenant}/{user.key.name}"
        _LOG.info("group %s on topic %s expired: nobody used it", named, topic.resource)
        details = {"group": named, "used_ms": used_ms}
        self._context.audit.record(
            _SERVICE, Act("expire a group", topic.resource, topic.owner, details)
        )

    def _is_here(self, name: str) -> bool:
        try:
            self._context.ownership.check_group(name)
        except PartitionNotServing:
            return False
        return True
