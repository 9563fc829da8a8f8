"""KafkaConsumerService: members of groups whose assignments the server decides (KIP-848)."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.kafka.groups import KafkaGroups
from opentalos.broker.groups.kafka.hosted import LOOKED_UP_AT_ONCE, GroupName
from opentalos.broker.groups.kafka.hosted_consumer import HostedConsumerGroup, ReadTopics
from opentalos.broker.groups.kafka.scope import has_workers, readable_topic, readable_topics
from opentalos.catalog.topics.pattern import Pattern
from opentalos.catalog.topics.topic import Topic
from opentalos.group.kafka.consumer_member import JOINS, ConsumerAnswer, ConsumerHeartbeat
from opentalos.group.kafka.values import Refusal
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Principal

REGEX_S = 5.0  # a new topic is found by the expression of a member after this time
_MATCHES_MIN = 64  # kept, whoever they are of
NAMES_MAX = 10_000  # of one subscription
_WORK_PER_PIECE = 10_000  # steps of a pattern, which take 1 to 2 ms


@dataclass(slots=True)
class _Matches:
    regex: str
    until_s: float
    topics: Mapping[str, Topic]


class KafkaConsumerService:
    """Heartbeats of members. A name means a group of the caller's tenant.

    Raises: NotOwner, PartitionNotServing: at another server; InvalidName; TooManyConsumers.
    """

    def __init__(self, context: BrokerContext, groups: KafkaGroups) -> None:
        self._context, self._groups = context, groups
        self._matches: dict[tuple[GroupName, str], _Matches] = {}
        self._matches_max = _MATCHES_MIN  # above it those of who is no member are dropped

    async def heartbeat(
        self,
        caller: Principal,
        group: str,
        heartbeat: ConsumerHeartbeat,
        shown: Callable[[Topic], str],
    ) -> ConsumerAnswer:
        """``shown``: the name by which the caller knows a topic, which expressions match."""
        try:
            return await self._heartbeat(caller, group, heartbeat, shown)
        finally:
            if len(self._matches) > self._matches_max:
                self._forget_matches()

    async def _heartbeat(
        self,
        caller: Principal,
        group: str,
        heartbeat: ConsumerHeartbeat,
        shown: Callable[[Topic], str],
    ) -> ConsumerAnswer:
        name = self._groups.name_of(caller, group)
        if heartbeat.epoch == JOINS and not heartbeat.who.member:
            fresh_id = self._groups.fresh_id(heartbeat.client_id)
            heartbeat = replace(heartbeat, who=heartbeat.who._replace(member=fresh_id))
        if self._groups.find(name) is None and heartbeat.epoch != JOINS:
            return ConsumerAnswer(refusal=Refusal.UNKNOWN_MEMBER_ID)
        try:
            topics = await self._topics(caller, name, heartbeat, shown)
        except BadRequest as error:
            return ConsumerAnswer(refusal=Refusal.INVALID_REGULAR_EXPRESSION, text=str(error))
        if heartbeat.epoch == JOINS and await self._has_workers(caller, name, topics or {}):
            text = "workers of another protocol read under the group's name"
            return ConsumerAnswer(refusal=Refusal.GROUP_ID_NOT_FOUND, text=text)
        if topics is not None:
            heartbeat = replace(heartbeat, topics=frozenset(topics))
        found = ReadTopics(topics or {}, await self._counts(topics or {}))
        # From here to the machine nothing waits, so nobody makes it twice. It may have moved.
        self._groups.name_of(caller, group)
        hosted = self._groups.find(name)
        if hosted is None and heartbeat.epoch == JOINS:
            hosted = self._groups.open_consumer(name)
        if hosted is None:
            return ConsumerAnswer(refusal=Refusal.UNKNOWN_MEMBER_ID)
        if not isinstance(hosted, HostedConsumerGroup):
            text = "the group has members that assign partitions themselves"
            return ConsumerAnswer(refusal=Refusal.GROUP_ID_NOT_FOUND, text=text)
        return await hosted.heartbeat(caller, heartbeat, found)

    async def _has_workers(
        self, caller: Principal, name: GroupName, topics: Mapping[str, Topic]
    ) -> bool:
        leases = self._groups.leases
        return await has_workers(self._context, leases, caller, name.name, topics.values())

    async def _counts(self, topics: Mapping[str, Topic]) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        async for some in self._context.work.pieces(list(topics.values())):
            counts.update((topic.uuid, topic.consumer_partitions) for topic in some)
        return counts

    async def _topics(
        self,
        caller: Principal,
        name: GroupName,
        heartbeat: ConsumerHeartbeat,
        shown: Callable[[Topic], str],
    ) -> Mapping[str, Topic] | None:
        """What the member subscribes to now, by uuid; None: it is not known, or leaves.

        Looked up with every heartbeat: topics come, go and grow. Raises: BadRequest.
        """
        if heartbeat.epoch < JOINS:
            return None
        hosted = self._groups.find(name)
        known = None
        if isinstance(hosted, HostedConsumerGroup):
            known = hosted.machine.members.get(heartbeat.who.member)
        names, regex = heartbeat.names, heartbeat.regex
        if known is not None and heartbeat.epoch != JOINS:
            names = known.names if names is None else names
            regex = known.regex if regex is None else regex
        if names is None and regex is None:
            return None
        if len(names or ()) > NAMES_MAX:
            raise BadRequest(f"a subscription has at most {NAMES_MAX} topics")
        found: dict[str, Topic] = {}
        async for some in self._context.work.pieces(names or (), LOOKED_UP_AT_ONCE):
            for topic_name in some:
                topic = readable_topic(self._context, caller, topic_name)
                if topic is not None:
                    found[topic.uuid] = topic
        if regex:
            found.update(await self._matching(caller, (name, heartbeat.who.member), regex, shown))
        return found

    async def _matching(
        self,
        caller: Principal,
        key: tuple[GroupName, str],
        regex: str,
        shown: Callable[[Topic], str],
    ) -> Mapping[str, Topic]:
        now_s = asyncio.get_running_loop().time()
        known = self._matches.get(key)
        if known is not None and known.regex == regex and now_s < known.until_s:
            return known.topics
        pattern = Pattern(regex)
        found: dict[str, Topic] = {}
        topics = iter(await readable_topics(self._context, caller))

        def match_a_piece() -> bool:
            """Returns: whether topics may be left."""
            spent = pattern.work
            for topic in topics:
                if pattern.matches(shown(topic)):
                    found[topic.uuid] = topic
                if pattern.work - spent > _WORK_PER_PIECE:
                    return True
            return False

        if match_a_piece():
            async with self._context.work.turn(caller.id, patient=True) as turn:
                while match_a_piece():
                    await turn.pause()
        self._matches[key] = _Matches(regex, now_s + REGEX_S, found)
        return found

    def _forget_matches(self) -> None:
        """Keep those of members only; what a refused one made goes as well."""
        kept: dict[tuple[GroupName, str], _Matches] = {}
        for key, matches in self._matches.items():
            hosted = self._groups.find(key[0])
            if isinstance(hosted, HostedConsumerGroup) and key[1] in hosted.machine.members:
                kept[key] = matches
        self._matches, self._matches_max = kept, max(_MATCHES_MIN, 2 * len(kept))
