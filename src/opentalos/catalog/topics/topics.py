"""All topics in memory, loaded from the MetaStore and changed by compare-and-set."""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

from opentalos.catalog.access.authorize import permissions_of, topic_not_exist
from opentalos.catalog.access.plain_names import PlainNames, how_to_name
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.catalog.records.unseen_records import UnseenRecords
from opentalos.catalog.topics.deleted import DeletedTopics
from opentalos.catalog.topics.topic import Topic, TopicStatus, decode_topic, encode_topic
from opentalos.model.errors import CorruptLog, NewerFormat, NotFound, TopicNotExist
from opentalos.model.identity import Principal
from opentalos.model.names import SYSTEM_TENANT, SYSTEM_TOPICS, check_topic_name
from opentalos.ports.meta_store import MetaStore

TOPICS = "topics"  # where their records lie
Listener = Callable[[Topic | None, Topic | None], None]  # (old, new), each None when absent


class TopicCatalog:
    """The topic records. Only topics that are not being deleted can be looked up."""

    def __init__(self, meta: MetaStore, listener: Listener = lambda old, new: None) -> None:
        codec = Codec(encode_topic, decode_topic)
        self._records = RecordIndex(meta, TOPICS, codec, self._record_changed)
        self.unseen = UnseenRecords(self._records, TOPICS)
        self.deleted = DeletedTopics(meta)
        self._listener = listener
        self._by_resource: dict[str, Topic] = {}
        self._by_uuid: dict[str, Topic] = {}
        self.names: PlainNames[Topic] = PlainNames()
        self._by_owner: dict[str, dict[str, Topic]] = {}  # owner, then name
        self._tombstones: dict[str, Topic] = {}  # by resource name
        self._shrinking: dict[str, Topic] = {}  # by resource name

    async def start(self) -> None:
        """Load all topics. Raises: NewerFormat, CorruptLog."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self._records.close()

    def by_resource(self, resource: str) -> Topic | None:
        """The topic of that resource name; sync, for the hot path."""
        return self._by_resource.get(resource)

    def find(self, caller: Principal, name: str) -> Topic:
        """Resolve a plain name, ``owner/name`` or a resource name for a caller.

        A plain name means the caller's organisation's topic, then its own, then the only one
        whose grant it accepted (``PlainNames``). The result is not yet authorised.

        Raises: TopicNotExist, InvalidName.
        """
        topic = self._resolve(caller, name)
        if topic is None:
            raise self._unknown(caller, name)
        return topic

    def _unknown(self, caller: Principal, name: str) -> TopicNotExist:
        if "#" in name or "/" in name:
            return topic_not_exist(name)
        error = topic_not_exist(name, *(() if caller.anonymous else (caller.owner_id, caller.id)))
        hint = how_to_name("topic", self.names.usable(caller, name))
        return TopicNotExist(f"{error}{hint}", error.records) if hint else error

    def _resolve(self, caller: Principal, name: str) -> Topic | None:
        if name in self._by_resource:
            return self._by_resource[name]
        if "#" in name and "/" not in name:
            return None
        owner, slash, plain = name.rpartition("/")
        if plain not in SYSTEM_TOPICS:
            check_topic_name(plain)
        elif not slash:  # only the service can have topics of these names
            topic = self.names.owned(SYSTEM_TENANT, plain)
            return topic if topic is not None and permissions_of(caller, topic) else None
        return self.names.owned(owner, plain) if slash else self.names.meant(caller, plain)

    def all(self) -> Collection[Topic]:
        """Every topic that is not being deleted; a live view, not to be kept over an await."""
        return self._by_resource.values()

    def owned_by(self, owner: str) -> Collection[Topic]:
        """An owner's topics; a live view, not to be kept over an await."""
        return self._by_owner.get(owner, {}).values()

    def tombstones(self) -> Sequence[Topic]:
        """Topics whose deletion is not complete."""
        return list(self._tombstones.values())

    def shrinking(self) -> Sequence[Topic]:
        """Topics whose removed partitions are still open to consumers."""
        return list(self._shrinking.values())

    def record(self, owner: str, name: str) -> Topic | None:
        """The record of that name, be it live or a tombstone."""
        return self._records.get(topic_path(owner, name))

    async def create(self, topic: Topic) -> None:
        """Store a new topic. Raises: AlreadyExists: read ``record`` for the existing one."""
        await self._records.create(topic_path(topic.owner, topic.name), topic)

    async def change(self, topic: Topic, change: Callable[[Topic], Topic]) -> Topic:
        """Change this very topic, not one that was recreated under its name.

        ``change`` may make it a tombstone: from then on the topic does not exist for anybody.

        Raises: TopicNotExist, and whatever ``change`` raises.
        """

        def same_topic(stored: Topic) -> Topic:
            if stored.uuid != topic.uuid or stored.status != TopicStatus.ACTIVE:
                raise topic_not_exist(topic.resource)
            return change(stored)

        try:
            return await self._records.change(topic_path(topic.owner, topic.name), same_topic)
        except NotFound:
            raise topic_not_exist(topic.resource) from None

    async def remove(self, dead: Topic, now_ms: int) -> None:
        """Remove a tombstone once its logs are gone; the name is free afterwards.

        That the topic was deleted stays on record: files of it may still come, of a former owner
        that is late, and without that they would look like those of a topic that was lost.
        """
        await self.deleted.add(dead, now_ms)
        await self._records.remove(topic_path(dead.owner, dead.name), dead)

    def _record_changed(self, path: str, old: Topic | None, new: Topic | None) -> None:
        if old is not None:
            self._forget(old)
        if new is not None:
            if new.status == TopicStatus.ACTIVE:
                self._by_resource[new.resource] = self._by_uuid[new.uuid] = new
                self.names.add(new)
                self._by_owner.setdefault(new.owner, {})[new.name] = new
                if new.shrinking:
                    self._shrinking[new.resource] = new
            else:
                self._tombstones[new.resource] = new
        self._listener(old, new)

    def _forget(self, old: Topic) -> None:
        self._tombstones.pop(old.resource, None)
        self._shrinking.pop(old.resource, None)
        if self._by_resource.pop(old.resource, None) is None:
            return
        del self._by_uuid[old.uuid]
        self.names.remove(old)
        owned = self._by_owner[old.owner]
        del owned[old.name]
        if not owned:
            del self._by_owner[old.owner]


def topic_path(owner: str, name: str) -> str:
    """Where a topic's record lies."""
    return record_path(TOPICS, owner, name)


def topic_by_uuid(catalog: TopicCatalog, topic_uuid: str) -> Topic | None:
    """The topic of that id, unless it is being deleted."""
    return catalog._by_uuid.get(topic_uuid)


def of_tenants(topics: Collection[Topic]) -> list[Topic]:
    """All of them but the service's own, which no list shows."""
    return [topic for topic in topics if topic.owner != SYSTEM_TENANT]


async def confirm_topic(catalog: TopicCatalog, topic_uuid: str) -> None:
    """Look, past all copies, whether a topic still exists.

    Raises: TopicNotExist: it was deleted, or is being deleted. Unavailable: it is not known.
    """
    topic = catalog._by_uuid.get(topic_uuid)
    if topic is not None:
        await catalog._records.refresh(topic_path(topic.owner, topic.name))
        topic = catalog._by_uuid.get(topic_uuid)
    if topic is None:
        raise topic_not_exist(topic_uuid)


class Existence(Enum):
    """What the catalogue says of a topic's uuid."""

    EXISTS = "exists"
    DELETED = "deleted"  # or being deleted
    UNKNOWN = "unknown"  # not deleted either, as far as is known: its record may be lost


async def existence(catalog: TopicCatalog, topic_uuid: str, owner: str, name: str) -> Existence:
    """Whether a topic exists, past all copies if none shows it.

    Raises: Unavailable: it is not known. CorruptLog, NewerFormat: its record cannot be read.
    """
    if topic_uuid in catalog._by_uuid:
        return Existence.EXISTS
    await catalog._records.refresh(topic_path(owner, name))
    if topic_uuid in catalog._by_uuid:
        return Existence.EXISTS
    record = catalog.record(owner, name)
    if record is not None and record.uuid == topic_uuid:
        return Existence.DELETED
    try:
        gone = await catalog.deleted.find(topic_uuid)  # it is there before the topic's record goes
    except (CorruptLog, NewerFormat):  # it proves nothing
        gone = None
    return Existence.UNKNOWN if gone is None else Existence.DELETED


async def all_by_uuid(catalog: TopicCatalog, wanted: Collection[str] = ()) -> Mapping[str, Topic]:
    """Every topic, also those that are being deleted; if one of the ``wanted`` is not among them,
    they are read again, past all copies. Raises: Unavailable."""
    found = {topic.uuid: topic for _, topic in catalog._records.items()}
    if all(uuid in found for uuid in wanted):
        return found
    await catalog._records.reload()
    return {topic.uuid: topic for _, topic in catalog._records.items()}


async def read_again(catalog: TopicCatalog, topic: Topic) -> Topic:
    """The topic as its record is now; as it was, if that is gone. Raises: Unavailable."""
    await catalog._records.refresh(topic_path(topic.owner, topic.name))
    now = catalog.record(topic.owner, topic.name)
    return now if now is not None and now.uuid == topic.uuid else topic
