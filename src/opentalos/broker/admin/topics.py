"""TopicService: create, change, delete, describe and list topics."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from opentalos.broker.admin.topic_state import TopicReader
from opentalos.broker.admin.topic_upkeep import TopicUpkeep
from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.broker.values import (
    AttributeChange,
    NewTopic,
    Topic,
    TopicDescription,
    TopicStatus,
)
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.quota.quotas import partitions_limit
from opentalos.catalog.quota.records import QuotaCatalog
from opentalos.catalog.topics.change import (
    bound_topic,
    changed_topic,
    check_text,
    new_topic,
    shrunk_topic,
    split_name,
    tombstone,
    without_attribute,
)
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    NotSupported,
    PermissionDenied,
    QuotaExceeded,
    StoreUnavailable,
    TopicExists,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.names import SYSTEM_TENANT

UUID_BYTES = 16
ALL_PARTITIONS = slice(None)


class TopicService:
    """Topics as callers see and change them; every method authorises first."""

    def __init__(
        self,
        context: BrokerContext,
        quotas: QuotaCatalog,
        reader: TopicReader,
        upkeep: TopicUpkeep,
    ) -> None:
        self._context, self._quotas, self._audit = context, quotas, context.audit
        self._reader, self._upkeep = reader, upkeep
        self.trials = TopicTrials(context, quotas)
        # Counting and creating are one step, so that parallel calls cannot pass a limit together.
        self._counting = asyncio.Lock()

    @audited("create a topic", "new.name", "new.partitions")
    async def create_topic(self, caller: Principal, new: NewTopic) -> Topic:
        """Create a topic owned by the caller or its organisation.

        Raises: TopicExists, InvalidName, InvalidTopicParams, QuotaExceeded, PermissionDenied;
            StoreUnavailable: a topic of that name is still being deleted.
        """
        context = self._context
        topic = _requested_topic(context, caller, new)
        owner, name = topic.owner, topic.name
        await context.changes.admit(caller)
        await self._make_way(owner, name)  # it may wait for storage, so outside the lock
        try:
            await self._store(topic)
        except AlreadyExists:  # this server has not seen it yet
            await self._make_way(owner, name)
            try:
                await self._store(topic)
            except AlreadyExists:
                raise TopicExists(f"topic {name} exists") from None
        await context.ownership.settled(topic.uuid, topic.partitions)
        return topic

    @audited("delete a topic", "resource")
    async def delete_topic(self, caller: Principal, resource: str) -> None:
        """Delete a topic by resource name; from then on it does not exist for any caller.

        Its logs are removed at once if storage allows, else later, even after a restart.
        Raises: BadRequest: it is one of the service's own.
        """
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        if topic.owner == SYSTEM_TENANT:
            raise BadRequest(f"topic {topic.name} belongs to the service and cannot be deleted")
        await self._context.changes.admit(caller)
        dead = await self._context.topics.change(topic, tombstone)
        await self._upkeep.remove_soon(dead)

    @audited("change a topic", "resource", "change")
    async def change_attribute(
        self, caller: Principal, resource: str, change: AttributeChange
    ) -> Topic:
        """Change the fields that are set.

        Raises: InvalidTopicParams, ChangePartitionTooFast, QuotaExceeded, TopicNotExist.
        """
        context = self._context
        topic = context.topic(caller, Permission.CHANGE_TOPIC, resource)
        await context.changes.admit(caller)
        now_ms = context.clock.wall_ms()
        async with self._counting:
            if change.partitions is not None and change.partitions > topic.partitions:
                # Errors in the change take precedence over limits.
                changed_topic(topic, change, now_ms, context.config.topic)
                more = change.partitions - topic.partitions
                _check_counts(context, self._quotas, topic.owner, more, topics=0)
            changed = await context.topics.change(
                topic, lambda now: changed_topic(now, change, now_ms, context.config.topic)
            )
        if change.partitions is not None:
            await context.ownership.settled(changed.uuid, changed.partitions)
        return changed

    @audited("delete an attribute", "resource", "key")
    async def delete_attribute(self, caller: Principal, resource: str, key: str) -> Topic:
        """Remove one key of the free attribute map; an unknown key is no error."""
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        await self._context.changes.admit(caller)
        return await self._context.topics.change(topic, lambda now: without_attribute(now, key))

    @audited("change the owner information", "resource", "charge_id", "owner_name")
    async def change_owner_info(
        self, caller: Principal, resource: str, charge_id: str, owner_name: str
    ) -> Topic:
        """Set the responsible person. Raises: BadRequest: a text is too long."""
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        check_text(charge_id, "chargeId")
        check_text(owner_name, "ownerName")
        await self._context.changes.admit(caller)
        return await self._context.topics.change(
            topic, lambda now: replace(now, charge_id=charge_id, owner_name=owner_name)
        )

    def find_topic(self, caller: Principal, name: str) -> Topic:
        """The topic of getDescribeInfo (``consumer_partitions``) and getTopicAttribute.

        Raises: TopicNotExist, PermissionDenied, InvalidName.
        """
        return self._context.find_topic(caller, Permission.DESCRIBE_TOPIC, name)

    async def describe_topic(
        self, caller: Principal, name: str, partitions: slice = ALL_PARTITIONS
    ) -> TopicDescription:
        """A topic's description; a partition whose state cannot be read now is left out.

        Args: partitions: whose states are read, such as ``slice(0, 100)`` for the first ones.
        """
        topic = self.find_topic(caller, name)
        chosen = range(topic.consumer_partitions)[partitions]
        return await self._reader.describe(caller, topic, chosen)

    def list_topics(self, caller: Principal) -> Sequence[Topic]:
        """Topics that the caller or its organisation owns, by name."""
        return self._reader.owned_by(caller)

    def bind_topics(self, caller: Principal) -> Sequence[Topic]:
        """Topics bound to the caller's organisation or team (getBindTopics), by name."""
        bound = [
            topic
            for topic in self._context.topics.all()
            if (topic.bound_organisation and topic.bound_organisation == caller.organisation)
            or (topic.bound_team and topic.bound_team == caller.team)
            if permissions_of(caller, topic) & int(Permission.DESCRIBE_TOPIC)
        ]
        return sorted(bound, key=lambda topic: (topic.name, topic.owner))

    @audited("bind a topic", "resource", "organisation", "team")
    async def add_sub_resource_name(
        self, caller: Principal, resource: str, organisation: str, team: str
    ) -> Topic:
        """Bind a developer's topic to an organisation and its admin team.

        Raises: SubResourceNameExists: bound already; PermissionDenied: the caller is a member of
            an organisation (an AK key); InvalidName.
        """
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        if caller.organisation:
            self._context.authorizer.refuse(caller, "bind a topic", resource)
        await self._context.changes.admit(caller)
        return await self._context.topics.change(
            topic, lambda now: bound_topic(now, organisation, team)
        )

    def replicate_topic(self, caller: Principal) -> Topic:
        """Both replication RPCs. Raises: NotSupported."""
        raise NotSupported("replication topics are not supported yet")

    @audited("finish a shrink", "resource")
    async def finish_shrink(self, caller: Principal, resource: str) -> Topic:
        """End a shrink now, even with unconsumed messages; for administrators."""
        self._context.authorizer.authorize_admin(caller, "finish a shrink", resource)
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        return await self._context.topics.change(topic, shrunk_topic)

    async def _store(self, topic: Topic) -> None:
        """Raises: QuotaExceeded; AlreadyExists: live or a tombstone, and visible here now."""
        async with self._counting:
            _check_counts(self._context, self._quotas, topic.owner, topic.partitions, topics=1)
            await self._context.keys.ensure((topic.owner,))
            await self._context.topics.create(topic)

    async def _make_way(self, owner: str, name: str) -> None:
        """Complete the deletion of a former topic of that name. Raises: TopicExists."""
        topics = self._context.topics
        former = topics.record(owner, name)
        if former is not None and self._context.peers is not None:
            await topics.unseen.look([(owner, name, former)])  # another server may have deleted it
            former = topics.record(owner, name)
        if former is None:
            return
        if former.status == TopicStatus.ACTIVE:
            raise TopicExists(f"topic {name} exists")
        await self._upkeep.remove_soon(former)
        if self._context.topics.record(owner, name) is not None:
            raise StoreUnavailable(f"a former topic {name} is still being deleted; try again")


class TopicTrials:
    """What a change would make of a topic, for callers that only ask; nothing is stored.

    Each raises what the change would raise, as far as this server knows.
    """

    def __init__(self, context: BrokerContext, quotas: QuotaCatalog) -> None:
        self._context, self._quotas = context, quotas

    def create_topic(self, caller: Principal, new: NewTopic) -> Topic:
        """The topic that would be made; its uuid will be another one."""
        topic = _requested_topic(self._context, caller, new)
        former = self._context.topics.record(topic.owner, topic.name)
        if former is not None and former.status == TopicStatus.ACTIVE:
            raise TopicExists(f"topic {topic.name} exists")
        _check_counts(self._context, self._quotas, topic.owner, topic.partitions, topics=1)
        return topic

    def change_attribute(self, caller: Principal, resource: str, change: AttributeChange) -> Topic:
        """The topic as it would be."""
        context = self._context
        topic = context.topic(caller, Permission.CHANGE_TOPIC, resource)
        changed = changed_topic(topic, change, context.clock.wall_ms(), context.config.topic)
        if changed.partitions > topic.partitions:
            more = changed.partitions - topic.partitions
            _check_counts(context, self._quotas, topic.owner, more, topics=0)
        return changed


def _requested_topic(context: BrokerContext, caller: Principal, new: NewTopic) -> Topic:
    """Raises: InvalidName, InvalidTopicParams, PermissionDenied."""
    context.authorizer.authorize_own(caller, "create a topic", new.name)
    try:
        owner_and_name = split_name(caller, new.name)
    except PermissionDenied:
        context.authorizer.refuse(caller, "create a topic of another owner", new.name)
    clock = context.clock
    uuid = clock.token(UUID_BYTES).hex()
    return new_topic(new, owner_and_name, uuid, clock.wall_ms(), context.config.topic)


def _check_counts(
    context: BrokerContext, quotas: QuotaCatalog, owner: str, partitions: int, *, topics: int
) -> None:
    """Raises: QuotaExceeded."""
    config, owned = context.config, context.topics.owned_by(owner)
    all_topics = context.topics
    total = len(all_topics.all()) - len(all_topics.owned_by(SYSTEM_TENANT))
    if topics and total + topics > config.topic.topics_max:
        raise QuotaExceeded(
            f"topics of this service: limit {config.topic.topics_max}, measured {total}"
        )
    quota = quotas.user(owner)
    limit = quota.topics if quota and quota.topics is not None else config.quota.user_topics
    if topics and limit and len(owned) + topics > limit:
        raise QuotaExceeded(
            f"topics of {owner}: limit {limit} topics, measured {len(owned)} topics"
        )
    most = partitions_limit(owner, quotas.approved().get(owner), config.quota)
    used = sum(topic.partitions for topic in owned)
    if most is not None and used + partitions > most:
        raise QuotaExceeded(
            f"partitions of {owner}: limit {most} partitions, measured {used} "
            f"partitions, requested {partitions} more"
        )
