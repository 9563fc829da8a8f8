"""DeletedTopics: which topics were deleted; the records outlive the files.

A topic that is stored and not in the catalogue was deleted, and a late write left files of it; or
its record is lost, because the catalogue is older than the files. Only the record of the deletion
distinguishes these, so it is written before the topic's own record is removed. The leader of a
cluster removes it later (``sweep``). Nobody keeps the records in memory: they are read by uuid.
"""

from collections.abc import Container, Sequence
from typing import Any, Final, NamedTuple

from opentalos.catalog.records.record_format import decode_record, encode_record
from opentalos.catalog.records.record_index import record_path
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import AlreadyExists, CorruptLog, NewerFormat, VersionConflict
from opentalos.ports.meta_store import MetaStore, Record

PREFIX: Final = "deleted-topics"
FORMAT_VERSION: Final = 1
KEPT_MS: Final = 30 * 86_400_000
# A folder takes the uuids with the same first characters, so that no listing is large.
FOLDER_CHARS: Final = 2
FOLDER_RECORDS_MAX: Final = 400  # above it the oldest go: about 100,000 in 256 folders


class DeletedTopic(NamedTuple):
    """A topic that does not exist any more."""

    uuid: str
    owner: str
    name: str
    deleted_ms: int


class DeletedTopics:
    """The records, one per deleted topic."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def add(self, dead: Topic, now_ms: int) -> None:
        """A topic's logs are gone; idempotent. Raises: Unavailable, OutcomeUnknown."""
        value = encode_record(
            FORMAT_VERSION, uuid=dead.uuid, owner=dead.owner, name=dead.name, deleted_ms=now_ms
        )
        try:
            await self._meta.create(deleted_path(dead.uuid), value)
        except AlreadyExists:  # an earlier attempt did not end
            return

    async def find(self, topic_uuid: str) -> DeletedTopic | None:
        """The deletion of a topic, read past all copies; None: it was not deleted, or long ago.

        Raises: CorruptLog, NewerFormat: its record cannot be read; Unavailable.
        """
        record = await self._meta.get(deleted_path(topic_uuid))
        if record is None:
            return None
        found = decode_deleted(record.value)
        if found.uuid != topic_uuid:
            raise CorruptLog(f"record {deleted_path(topic_uuid)} names another topic")
        return found

    async def folders(self) -> Sequence[str]:
        """Those that ``sweep`` takes, one after the other. Raises: Unavailable."""
        return await self._meta.children(PREFIX)

    async def sweep(self, folder: str, now_ms: int, stored: Container[str]) -> int:
        """Remove what is old from one folder, and the oldest above its bound; how many.

        A topic of which something is ``stored`` keeps its record. Raises: Unavailable,
        OutcomeUnknown: harmless.
        """
        found = sorted(
            (deleted.deleted_ms, path, record.version)
            for path, record in (await self._records(f"{PREFIX}/{folder}")).items()
            if path.rpartition("/")[2] not in stored and (deleted := _decoded(record)) is not None
        )
        surplus = len(found) - FOLDER_RECORDS_MAX
        removed = 0
        for number, (deleted_ms, path, version) in enumerate(found):
            if number >= surplus and now_ms - deleted_ms < KEPT_MS:
                break
            try:
                await self._meta.delete(path, version)
            except VersionConflict:  # another server was quicker
                continue
            removed += 1
        return removed

    async def _records(self, folder: str) -> dict[str, Record]:
        states = self._meta.watch(folder)
        try:
            return dict(await anext(states))
        finally:
            close = getattr(states, "aclose", None)
            if close is not None:
                await close()


def deleted_path(topic_uuid: str) -> str:
    """Where the record of a topic's deletion lies."""
    return record_path(PREFIX, topic_uuid[:FOLDER_CHARS], topic_uuid)


def decode_deleted(value: bytes) -> DeletedTopic:
    """Read a record. Raises: NewerFormat, CorruptLog."""
    return decode_record(value, FORMAT_VERSION, "a deleted topic", _deleted)


def _deleted(record: Any) -> DeletedTopic:
    texts = (str(record["uuid"]), str(record["owner"]), str(record["name"]))
    return DeletedTopic(*texts, int(record["deleted_ms"]))


def _decoded(record: Record) -> DeletedTopic | None:
    """None: it cannot be read, so it stays for whoever can."""
    try:
        return decode_deleted(record.value)
    except (CorruptLog, NewerFormat):
        return None
