"""Which topics and groups a caller's question about series may be about."""

from dataclasses import dataclass
from typing import NamedTuple

from opentalos.broker.admin.overview import visible_in_pieces
from opentalos.broker.context import BrokerContext
from opentalos.broker.figures.metrics import By, Metric
from opentalos.broker.figures.plan import LAST_HOUR, Times
from opentalos.broker.groups.group_names import (
    may_manage,
    plain_name,
    shown_name,
    viewer_of,
    visible_groups,
)
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.catalog.access.roles import may_administer
from opentalos.catalog.topics.topic import Topic
from opentalos.group.group_rows import GroupRows
from opentalos.group.row_format import SEPARATOR
from opentalos.model.errors import BadRequest, ConsumerGroupNotExist, InvalidName, TopicNotExist
from opentalos.model.identity import Permission, Principal

READ_METRICS = "read metrics"  # of catalog/access/roles.py


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRequest:
    """What a caller asks for. ``topic`` and ``group`` are names, as the caller knows them."""

    metric: str
    by: By | None = None  # None: the metric's first
    topic: str = ""
    group: str = ""
    times: Times = LAST_HOUR
    limit: int = 10


class Scope(NamedTuple):
    """Topics by uuid, None: all; of those in ``shared`` only the groups of ``tenant`` count."""

    topics: frozenset[str] | None
    shared: frozenset[str] = frozenset()
    tenant: str = ""
    group: str = ""  # TENANT/NAME


class ScopeReader:
    """Authorizes questions about series."""

    def __init__(self, context: BrokerContext, rows: GroupRows) -> None:
        self._context, self._rows = context, rows

    async def read(
        self, caller: Principal, request: SeriesRequest, metric: Metric, by: By
    ) -> Scope:
        """Raises: PermissionDenied; TopicNotExist, ConsumerGroupNotExist: unknown and not granted
        answer alike; BadRequest: a topic or group does not fit the metric."""
        if request.group and (metric.name != "lag" or not request.topic):
            raise BadRequest("group needs the metric lag and a topic")
        if by is By.PARTITION and not request.topic:
            raise BadRequest("a split by partition needs a topic")
        if metric.service or by is By.SERVER:
            if request.topic:
                raise BadRequest(f"{metric.name} of a topic is not measured by {by}")
            self._context.authorizer.authorize_admin(caller, READ_METRICS, "series")
            return Scope(None)
        if request.topic:
            return await self._of_topic(caller, request)
        if may_administer(caller, READ_METRICS):
            return Scope(None)
        topics = await visible_in_pieces(self._context, caller, Permission.DESCRIBE_TOPIC)
        shared: set[str] = set()
        for start in range(0, len(topics), SHORT_ITEMS):
            part = topics[start : start + SHORT_ITEMS]
            shared.update([topic.uuid for topic in part if not may_manage(caller, topic)])
            await self._context.work.pause()
        uuids = frozenset([topic.uuid for topic in topics])
        return Scope(uuids, frozenset(shared), caller.owner_id)

    async def _of_topic(self, caller: Principal, request: SeriesRequest) -> Scope:
        try:
            topic = self._context.find_topic(caller, Permission.DESCRIBE_TOPIC, request.topic)
        except InvalidName as error:
            raise TopicNotExist(f"topic {request.topic} does not exist") from error
        topics = frozenset([topic.uuid])
        shared = frozenset[str]() if may_manage(caller, topic) else topics
        tenant = viewer_of(caller, topic)
        group = await self._group(caller, topic, request.group) if request.group else ""
        return Scope(topics, shared, tenant, group)

    async def _group(self, caller: Principal, topic: Topic, name: str) -> str:
        visible = visible_groups(caller, topic, await self._rows.groups(topic.uuid))
        user = visible.get(shown_name(caller, topic, name))
        if user is None:
            raise ConsumerGroupNotExist(f"no consumer group {plain_name(name)}")
        return user.tenant + SEPARATOR + user.key.name
