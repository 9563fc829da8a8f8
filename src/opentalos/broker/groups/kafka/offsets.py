"""KafkaOffsetService: offsets that Kafka clients commit are the checkpoints of our groups.

Kafka commits the offset of the next message, a checkpoint is the last one processed. The text that
a client stores with an offset is encrypted where the messages of its topic are. Text that cannot be
read any more never costs the position.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.group_names import manager_of, user_of
from opentalos.broker.groups.kafka.groups import KafkaGroups
from opentalos.broker.groups.kafka.hosted import GroupName, Hosted
from opentalos.broker.groups.kafka.hosted_consumer import HostedConsumerGroup
from opentalos.broker.groups.kafka.scope import (
    TOPICS_AT_ONCE,
    FoundGroup,
    GroupScope,
    check_coordinator,
)
from opentalos.broker.long_work import LongWork
from opentalos.catalog.encryption.cells import (
    decrypt_cell,
    encrypt_cell,
    is_encrypted_text,
    key_id_of,
    key_of,
)
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.lease_writes import CommitResult
from opentalos.group.kafka.leases import NewPosition, Position
from opentalos.group.kafka.values import MemberId, Refusal
from opentalos.group.progress import StoredOffset
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    CorruptLog,
    NewerFormat,
    PartitionNotExist,
    PartitionNotServing,
    SizeExceeded,
    StoreUnavailable,
    TalosError,
    UnexpectedOffset,
)
from opentalos.model.identity import Principal
from opentalos.ports.key_ring import DataKey, KeyRing

_LOG = logging.getLogger("opentalos.group")
_REFUSALS: Final = {
    CommitResult.STORED: None,
    CommitResult.REVOKED: Refusal.ILLEGAL_GENERATION,
    CommitResult.OTHERS: Refusal.REBALANCE_IN_PROGRESS,
    CommitResult.MOVED: Refusal.NOT_COORDINATOR,
}
AT_ONCE: Final = 256  # partitions of one call whose rows are written at the same time


class OffsetToCommit(NamedTuple):
    """The offset of the next message that a group reads."""

    topic: Topic
    partition: int
    next_offset: int
    metadata: str = ""


class CommittedOffset(NamedTuple):
    """The offset of the next message that a group reads, as it was committed."""

    next_offset: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits. Without a member id and with generation -1: a client without membership."""

    group: str
    who: MemberId
    generation: int

    @property
    def alone(self) -> bool:
        """Whether it is no member of a group."""
        return self.generation < 0 and not self.who.member and self.who.instance is None


Outcome = Refusal | TalosError | None  # None: stored


class KafkaOffsetService:
    """Commits and reads positions; only at the group's coordinator.

    Every call raises NotOwner or PartitionNotServing at another server, and InvalidName. The topics
    of the calls are those that the caller may read.
    """

    def __init__(
        self, context: BrokerContext, groups: KafkaGroups, consumers: ConsumerService
    ) -> None:
        self._context, self._groups, self._consumers = context, groups, consumers
        self._leases = groups.leases
        self._audit = context.audit
        self._texts = _Texts(context.keys, context.work)

    async def commit(
        self, caller: Principal, committer: Committer, offsets: Sequence[OffsetToCommit]
    ) -> Sequence[Outcome]:
        """Store positions, each by itself; the outcome of each, in order."""
        hosted = self._groups.find(self._groups.name_of(caller, committer.group))
        refusal = _refusal(hosted, committer)
        if refusal is not None:
            return [refusal] * len(offsets)
        outcomes: list[Outcome] = []
        for start in range(0, len(offsets), AT_ONCE):
            some = offsets[start : start + AT_ONCE]
            try:
                self._groups.name_of(caller, committer.group)
            except TalosError as error:  # it moved to another server meanwhile
                return [*outcomes, *[error] * (len(offsets) - start)]
            commits = [self._commit(caller, hosted, committer, offset) for offset in some]
            outcomes += await self._context.work.gather(commits)
        return outcomes

    async def _commit(
        self,
        caller: Principal,
        hosted: Hosted | None,
        committer: Committer,
        offset: OffsetToCommit,
    ) -> Outcome:
        try:
            user = user_of(caller, offset.topic, committer.group)
            position = await self._position(user, offset)
            if committer.alone or hosted is None:
                return await self._commit_alone(caller, committer.group, user, position)
            holder = hosted.holders.get(committer.who.member)
            if holder is None:
                return Refusal.UNKNOWN_MEMBER_ID
            held = holder.holds(user, position.partition)
            seat = hosted.seat_of(committer.who, committer.generation)
            result = await self._leases.commit(user, seat, _with(position, held))
            if result is CommitResult.STALE:
                return _refusal(hosted, committer) or Refusal.ILLEGAL_GENERATION
            if result is CommitResult.STORED and not held:
                hosted.gained(holder, user, [position.partition])
        except TalosError as error:
            return error
        return _REFUSALS[result]

    async def _position(self, user: GroupUser, offset: OffsetToCommit) -> NewPosition:
        check_partition(offset.topic, offset.partition)
        most = self._context.config.kafka_group.offset_metadata_bytes_max
        if len(offset.metadata.encode()) > most:
            raise SizeExceeded(f"the metadata of an offset has at most {most} bytes")
        if offset.next_offset < 0:
            raise UnexpectedOffset(f"offset {offset.next_offset} is negative")
        end = await self._consumers.ends.above(
            offset.topic, offset.partition, offset.next_offset - 1
        )
        return NewPosition(
            partition=offset.partition,
            next_offset=offset.next_offset,
            log_end=end.next_offset,
            epoch=end.epoch,
            metadata=self._texts.encode(user, offset),
        )

    async def _commit_alone(
        self, caller: Principal, group: str, user: GroupUser, position: NewPosition
    ) -> Outcome:
        result = await self._leases.commit_alone(user, position)
        # As for a member that is not known: the client must not take it for a rebalance.
        return Refusal.UNKNOWN_MEMBER_ID if result is CommitResult.OTHERS else _REFUSALS[result]

    async def fetch(
        self, caller: Principal, group: str, topic: Topic, starting: Sequence[int] = ()
    ) -> Mapping[int, CommittedOffset]:
        """Positions of a group on a topic, by partition.

        ``starting``: only of these, if there are any. A member begins to read them, so a position
        outside the log is an event (promise I6).
        The group may be written TENANT/NAME by whoever may change the topic.
        """
        check_coordinator(self._context, group)
        user = manager_of(self._context, caller, topic, group)
        found = await self._leases.positions(user)
        shown = f"{user.tenant}/{user.key.name}"
        read = [partition for partition in dict.fromkeys(starting) if partition in found]
        for start in range(0, len(read), AT_ONCE):
            some = read[start : start + AT_ONCE]
            checks = [self._check(topic, each, shown, found[each]) for each in some]
            await self._context.work.gather(checks)
        if starting:
            found = {partition: found[partition] for partition in read}
        return await self._texts.decode(user, topic, found)

    async def _check(self, topic: Topic, partition: int, group: str, position: Position) -> None:
        stored = StoredOffset(position.checkpoint, position.epoch)
        await self._consumers.positions.check(topic, partition, group, stored)

    def check_epoch(
        self, caller: Principal, group: str, member: str | None, epoch: int
    ) -> Refusal | None:
        """Whether a member that says which epoch it is in may know where to start."""
        check_coordinator(self._context, group)
        hosted = self._groups.find(GroupName(caller.owner_id, group))
        if member is None or epoch < 0 or not isinstance(hosted, HostedConsumerGroup):
            return None
        return hosted.check_commit(MemberId(member), epoch)

    async def fetch_all(
        self, scope: GroupScope, group: str
    ) -> Sequence[tuple[Topic, Mapping[int, CommittedOffset]]]:
        """Every position of a group, on those of its topics that the caller may read."""
        check_coordinator(self._context, group)
        matches = await scope.of(group)
        found: list[tuple[Topic, Mapping[int, CommittedOffset]]] = []
        for start in range(0, len(matches), TOPICS_AT_ONCE):
            some = matches[start : start + TOPICS_AT_ONCE]
            reads = [self._positions(match) for match in some]
            for match, positions in zip(some, await asyncio.gather(*reads), strict=True):
                if positions:
                    found.append((match.topic, positions))
                await scope.spend(1 + len(positions))
        return found

    async def _positions(self, match: FoundGroup) -> Mapping[int, CommittedOffset]:
        user = match.user
        return await self._texts.decode(user, match.topic, await self._leases.positions(user))

    @audited("delete an offset", "topic.resource", "group", "partition")
    async def delete(self, caller: Principal, group: str, topic: Topic, partition: int) -> Outcome:
        """Forget a position while nobody works in the group on the topic.

        Raises: ConsumerGroupNotExist.
        """
        check_coordinator(self._context, group)
        user = manager_of(self._context, caller, topic, group)
        check_partition(topic, partition)
        if not await self._leases.positions(user):
            raise ConsumerGroupNotExist(f"no consumer group {group} on topic {topic.name}")
        result = await self._leases.clear(user, partition)
        if result is CommitResult.OTHERS:
            return Refusal.GROUP_SUBSCRIBED_TO_TOPIC
        return _REFUSALS[result]


class _Texts:
    """Texts of offsets, from the client's to what is in the rows, and back."""

    def __init__(self, keys: KeyRing, work: LongWork) -> None:
        self._keys, self._work = keys, work

    def encode(self, user: GroupUser, offset: OffsetToCommit) -> bytes:
        """Encrypt it, if messages of the topic are. Raises: StoreUnavailable."""
        text = offset.metadata.encode()
        if not text:
            return text
        try:
            key = self._keys.current(offset.topic.owner)
        except PartitionNotServing as error:
            raise StoreUnavailable(str(error)) from error
        return text if key is None else encrypt_cell(text, key, _bound(user, offset.partition))

    async def decode(
        self, user: GroupUser, topic: Topic, stored: Mapping[int, Position]
    ) -> Mapping[int, CommittedOffset]:
        """Positions with their texts; one that cannot be read is empty and in the log.

        Raises: Unavailable: a key is not known here and cannot be looked up now.
        """
        found: dict[int, CommittedOffset] = {}
        keys: dict[bytes, DataKey | None] = {}  # by id
        unread: list[str] = []
        for count, (partition, position) in enumerate(stored.items(), 1):
            text = position.metadata
            try:
                if is_encrypted_text(text):
                    text = await self._decrypted(text, topic, keys, _bound(user, partition))
                found[partition] = CommittedOffset(position.next_offset, text.decode())
            except (CorruptLog, NewerFormat, UnicodeDecodeError) as error:
                found[partition] = CommittedOffset(position.next_offset, "")
                unread.append(f"partition {partition}: {error}")
            if count % AT_ONCE == 0:
                await self._work.pause()
        if unread:
            _LOG.warning(
                "%d texts stored with offsets of group %s/%s on topic %s cannot be read, and are "
                "answered empty; the first is of %s",
                len(unread), user.tenant, user.key.name, topic.resource, unread[0],
            )  # fmt: skip
        return found

    async def _decrypted(
        self, text: bytes, topic: Topic, keys: dict[bytes, DataKey | None], bound: bytes
    ) -> bytes:
        key_id = key_id_of(text)
        if key_id not in keys:
            keys[key_id] = await key_of(text, self._keys, lambda: topic.owner)
        key = keys[key_id]
        if key is None:
            raise CorruptLog(f"this server cannot unwrap data key {key_id.hex()}")
        return decrypt_cell(text, key, bound)


def _bound(user: GroupUser, partition: int) -> bytes:
    """What binds a text to its place, whichever key its row has."""
    parts = ("offset", user.key.topic_uuid, user.tenant, user.key.name, str(partition))
    return "\0".join(parts).encode()


def _refusal(hosted: Hosted | None, committer: Committer) -> Refusal | None:
    if committer.alone:
        occupied = hosted is not None and bool(hosted.holders)
        return Refusal.UNKNOWN_MEMBER_ID if occupied else None
    if hosted is None:  # its coordinator restarted, or the member's session ended
        return Refusal.UNKNOWN_MEMBER_ID
    return hosted.check_commit(committer.who, committer.generation)


def _with(position: NewPosition, held: bool) -> NewPosition:
    return NewPosition(
        partition=position.partition,
        next_offset=position.next_offset,
        log_end=position.log_end,
        epoch=position.epoch,
        metadata=position.metadata,
        held=held,
    )


def check_partition(topic: Topic, partition: int) -> None:
    """Raises: PartitionNotExist."""
    if not 0 <= partition < topic.consumer_partitions:
        raise PartitionNotExist(
            f"topic {topic.name} has {topic.consumer_partitions} partitions, none is {partition}",
            ((topic.owner, topic.name, topic),),
        )
