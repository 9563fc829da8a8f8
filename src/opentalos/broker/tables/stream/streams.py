"""Which topics a table's streams go to, and whether caller and table owner may put there."""

from collections.abc import Mapping

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.values import Table
from opentalos.catalog.access.authorize import topic_not_exist
from opentalos.catalog.tables.change import with_streams
from opentalos.catalog.topics.change import ORGANISATION_PREFIX
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import PermissionDenied, TopicNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.table import TableSchema

_NAME_CHARS_MAX = 80  # of a caller's text in an error


class TableStreams:
    """Finds the topics of streams that are being enabled, and checks the right to put there."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def enabled(self, caller: Principal, table: Table, now_ms: int) -> Table:
        """The new table with its streams enabled. Raises: as ``wanted``."""
        return with_streams(table, await self.wanted(caller, table, table.schema), now_ms)

    async def wanted(
        self, caller: Principal, table: Table, schema: TableSchema
    ) -> Mapping[str, Topic]:
        """The topic of each enabled stream, by its name in the schema. The caller must be able
        to put there too, or it could write to every topic of the owner by way of the table. The
        rights to a topic are not checked again while its stream stays as it is; a stopped stream
        without its topic is left out.

        Raises: TopicNotExist, PermissionDenied, with the topic's name; InvalidName.
        """
        owner = self._owner(caller, table)
        topics = {}
        for name, spec in schema.streams.items():
            if not spec.enabled:
                continue
            state = table.streams.get(name)
            known = self._known(state.topic_owner, state.topic_name) if state else None
            if state and known is not None and known.uuid == state.topic_uuid:
                if table.schema.streams.get(name) != spec:
                    self._check_caller(caller, known, name)
                topics[name] = known
            elif state is None or state.live:
                topic = topics[name] = await self._topic(owner, name)
                if caller != owner:
                    self._check_caller(caller, topic, name)
        return topics

    def _check_caller(self, caller: Principal, topic: Topic, name: str) -> None:
        """Raises: TopicNotExist: the caller must not learn of it; PermissionDenied."""
        try:
            self._context.authorizer.authorize(caller, Permission.PUT_MESSAGE, topic)
        except TopicNotExist:
            shown = name[:_NAME_CHARS_MAX]
            missing = topic_not_exist(name)
            raise TopicNotExist(f"stream to {shown}: {missing}") from None
        except PermissionDenied as error:
            raise PermissionDenied(
                f"stream to {name}: the caller needs the right to put: {error}"
            ) from None

    def _owner(self, caller: Principal, table: Table) -> Principal:
        """Who puts the messages: the table's owner, not the caller who enables the stream."""
        if not caller.admin and table.owner in (caller.id, caller.organisation):
            return caller  # with its team
        organisation = table.owner if table.owner.startswith(ORGANISATION_PREFIX) else ""
        return Principal(id=table.owner, number=1, organisation=organisation)

    def _known(self, owner: str, name: str) -> Topic | None:
        record = self._context.topics.record(owner, name)
        return record and self._context.topics.by_resource(record.resource)

    async def _topic(self, owner: Principal, name: str) -> Topic:
        try:
            try:
                return self._context.find_topic(owner, Permission.PUT_MESSAGE, name)
            except TopicNotExist as error:
                if not await self._context.appeared(error):
                    raise
                return self._context.find_topic(owner, Permission.PUT_MESSAGE, name)
        except TopicNotExist as error:
            raise TopicNotExist(
                f"stream to {name[:_NAME_CHARS_MAX]}: {error}", error.records
            ) from None
        except PermissionDenied as error:
            raise PermissionDenied(
                f"stream to {name}: the table's owner needs the right to put: {error}"
            ) from None
