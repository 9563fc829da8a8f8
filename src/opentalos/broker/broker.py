"""Broker: the composition of all use cases over the three stores and the clock."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from opentalos.broker.admin.keys.use_upkeep import KeyUseUpkeep
from opentalos.broker.admin.overview import OverviewService
from opentalos.broker.admin.permissions import PermissionService
from opentalos.broker.admin.principals import PrincipalService
from opentalos.broker.admin.sessions import SessionService
from opentalos.broker.admin.stored.unknown_topics import UnknownTopics
from opentalos.broker.admin.topic_groups import TopicGroupService
from opentalos.broker.admin.topic_state import TopicReader
from opentalos.broker.admin.topic_upkeep import TopicUpkeep
from opentalos.broker.admin.topics import TopicService
from opentalos.broker.audit.reading import AuditService
from opentalos.broker.audit.refused_callers import RefusedCallers
from opentalos.broker.audit.trail import AuditTrail
from opentalos.broker.cluster.cluster import Cluster
from opentalos.broker.cluster.kafka_nodes import (
    ClusterKafkaNodes,
    KafkaNodes,
    SingleKafkaNode,
)
from opentalos.broker.cluster.ownership import SingleServerEpochs, SingleServerOwnership
from opentalos.broker.cluster.partition_places import PartitionPlaces
from opentalos.broker.cluster.records import SERVERS
from opentalos.broker.cluster.service import ClusterService
from opentalos.broker.context import BrokerConfig, BrokerContext, log_settings
from opentalos.broker.figures.observing import Observing
from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.kafka.services import KafkaGroupServices
from opentalos.broker.groups.lag.figures import LagFigures
from opentalos.broker.groups.lag.sampled import GroupLags
from opentalos.broker.groups.leases import LeaseService
from opentalos.broker.groups.membership import MembershipService
from opentalos.broker.groups.metrics import MetricService
from opentalos.broker.groups.resets import GroupResetService
from opentalos.broker.groups.rest_workers import GroupMemberService
from opentalos.broker.groups.topic_consumers import TopicsConsumerService
from opentalos.broker.messaging.encryption import EncryptionService
from opentalos.broker.messaging.hot_partitions import HotPartitions
from opentalos.broker.messaging.messages import MessageService
from opentalos.broker.messaging.plain_messages import PlainMessageService
from opentalos.broker.messaging.reading.peer_reads import RemoteMessages
from opentalos.broker.messaging.reading.read_positions import ReadPositions
from opentalos.broker.messaging.reading.reads import MessageReads
from opentalos.broker.messaging.record_deletion import RecordDeletion
from opentalos.broker.messaging.system_topics import SystemTopics
from opentalos.broker.peer_rpc.calls import (
    HEALTH,
    MESSAGES,
    PARTITIONS,
    SERIES,
    STATUS,
    SYSTEM_PUT,
)
from opentalos.broker.peer_rpc.dispatch import PeerDispatch
from opentalos.broker.peer_rpc.remote_logs import RemoteLogs
from opentalos.broker.quota.invoices import InvoiceService
from opentalos.broker.quota.metering import Metering
from opentalos.broker.quota.partition_quotas import PartitionQuotaService
from opentalos.broker.quota.quotas import QuotaService
from opentalos.broker.quota.space_upkeep import SpaceUpkeep
from opentalos.broker.quota.usage import UsageService
from opentalos.broker.tables.api.access import TableAccess
from opentalos.broker.tables.api.admin import TableAdminService
from opentalos.broker.tables.api.put_fast_path import PutFastPath
from opentalos.broker.tables.api.service import TableService
from opentalos.broker.tables.encrypted_rows import EncryptedRows
from opentalos.broker.tables.maintenance.upkeep import TableUpkeep
from opentalos.broker.tables.shard.shards import TableShards
from opentalos.catalog.access.authorize import Authorizer
from opentalos.catalog.encryption.tenant_keys import EncryptionPlan, TenantKeys
from opentalos.catalog.leases.leases import LeaseCatalog
from opentalos.catalog.principals.ended_sessions import EndedSessions
from opentalos.catalog.principals.key_uses import KeyUses
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.catalog.principals.sealing import PrincipalSealing, SealPlan
from opentalos.catalog.quota.projection_records import ProjectionCatalog
from opentalos.catalog.quota.records import QuotaCatalog
from opentalos.catalog.quota.space import SpaceLedger
from opentalos.catalog.quota.throttle import Throttle
from opentalos.catalog.tables.table import Table
from opentalos.catalog.tables.tables import TableCatalog
from opentalos.catalog.topics.groups import TopicGroupCatalog
from opentalos.catalog.topics.topic import Topic, TopicStatus
from opentalos.catalog.topics.topics import TopicCatalog
from opentalos.group.coordinator import Coordinator
from opentalos.log.log_store import LogStore, use_keys, use_positions
from opentalos.log.partition.ownership_guard import SingleServerGuard
from opentalos.model.errors import TalosError
from opentalos.model.names import USAGE_TOPIC
from opentalos.model.table import TableState
from opentalos.ports.clock import Clock
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.peers import Peers
from opentalos.ports.row_store import RowStore

__all__ = ["Broker", "BrokerConfig", "EncryptionPlan", "open_broker"]

_LOG = logging.getLogger("opentalos.broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogs:
    """The records that a broker keeps in memory, in the order they are loaded."""

    keys: TenantKeys
    principals: PrincipalDirectory
    sealing: PrincipalSealing
    key_uses: KeyUses
    ended_sessions: EndedSessions
    quotas: QuotaCatalog
    projections: ProjectionCatalog
    topics: TopicCatalog
    topic_groups: TopicGroupCatalog
    tables: TableCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The stores that services use beside the catalogs and the log."""

    meta: MetaStore
    rows: RowStore


class Broker:
    """All use cases of one server: each attribute is one service that gateways call.

    ``start`` before use, ``close`` after. The server owns the stores and closes them itself.
    """

    def __init__(
        self,
        context: BrokerContext,
        catalogs: Catalogs,
        groups: Coordinator,
        stores: Stores,
        cluster: Cluster | None = None,
    ) -> None:
        reader, quotas = TopicReader(context), catalogs.quotas
        self._cluster, self.work = cluster, context.work
        self.context, self.catalogs, self.groups = context, catalogs, groups
        # Background tasks.
        self.system_topics = SystemTopics(context)
        self.metering = _metering(context, self.system_topics)
        self.topic_upkeep = TopicUpkeep(context, groups.directory, self.metering)
        self.unknown_topics = UnknownTopics(context)
        self.space_upkeep = SpaceUpkeep(context)
        self.key_use_upkeep = KeyUseUpkeep(
            catalogs.key_uses, context.config.auth.key_use_interval_s
        )
        # Topics and who may use them.
        self.topics = TopicService(context, quotas, reader, self.topic_upkeep)
        self.permissions = PermissionService(context)
        self.topic_groups = TopicGroupService(context, catalogs.topic_groups)
        self.principals = PrincipalService(
            catalogs.principals, context.authorizer, catalogs.key_uses, context.audit
        )
        self.refused_callers = RefusedCallers(
            context.audit, catalogs.principals.key, context.config.audit.failing_callers_max
        )
        self.sessions = SessionService(context, catalogs.principals, catalogs.ended_sessions)
        # Messages.
        self.messages = MessageService(context)
        self.plain_messages = PlainMessageService(context, self.messages)
        self.hot_partitions, self.encryption = HotPartitions(context), EncryptionService(context)
        # Consumer groups.
        self.consumers = ConsumerService(context, groups)
        self.topic_consumers = TopicsConsumerService(self.consumers)
        seats = self.group_membership = MembershipService(context, self.consumers, groups)
        self.metrics = MetricService(context, groups, reader)
        lags = self.lag_figures = LagFigures(context, groups)
        self.group_lags = GroupLags(context, groups.directory, lags.ends)
        self.group_resets = GroupResetService(self.messages, self.consumers, self.metrics)
        self.group_members = GroupMemberService(context, self.consumers, self.plain_messages, seats)
        self.kafka_groups = KafkaGroupServices(context, groups, self.consumers)
        self.leases = LeaseService(context, LeaseCatalog(stores.meta))
        # Quotas, usage, overview.
        self.quotas = QuotaService(context, quotas)
        self.partition_quotas = PartitionQuotaService(context, quotas, catalogs.projections)
        self.usage, self.audit = UsageService(context), AuditService(context)
        self.invoices = InvoiceService(context.config.invoices)
        self.overview = OverviewService(context, self.metrics, lags)
        self.observing = Observing(context, groups, cluster, lags.ends)
        # Structured tables.
        access = TableAccess(context, catalogs.tables, stores.rows)
        self.shards = TableShards(
            context, stores.rows, stores.meta, catalogs.tables, catalogs.principals.get
        )
        self.table_upkeep = TableUpkeep(context, access, self.shards, stores.meta)
        self.tables = TableService(context, access, self.shards)
        self.put_fast_path = PutFastPath(context, access, self.shards)
        self.table_admin = TableAdminService(context, access, self.shards, self.table_upkeep)
        # The cluster; None: a single server.
        self.cluster: ClusterService | None = None
        self.places: PartitionPlaces | None = None
        self.kafka_nodes = _kafka_nodes(context, cluster)
        if cluster is not None:
            self.cluster = ClusterService(context, cluster.state, cluster.controller, cluster.peers)
            self.places = PartitionPlaces(context, cluster.state.meta)
        self.peer_calls = self._peer_calls()

    @cached_property
    def record_deletion(self) -> RecordDeletion:
        """Deletes the beginning of partitions."""
        return RecordDeletion(self.context)

    @cached_property
    def reads(self) -> MessageReads:
        """Reads for gateways that need others than ``messages`` has."""
        return MessageReads(self.context, self.messages)

    def _peer_calls(self) -> PeerDispatch:
        """What other servers may call here: all of ``peer_rpc/calls.py``."""
        calls = PeerDispatch()
        calls.register(SYSTEM_PUT, self.system_topics.answer)
        calls.register(PARTITIONS, RemoteLogs(self.context).answer)
        calls.register(MESSAGES, RemoteMessages(self.context).answer)
        calls.register(SERIES, self.observing.series.answer)
        calls.register(HEALTH, self.observing.health.answer)
        self.shards.register(calls)
        if self.cluster is not None:
            calls.register(STATUS, self.cluster.answer_status)
        return calls

    async def start(self) -> None:
        """Enter the cluster, open the log, load the catalogs, start the background tasks.

        Raises: NewerFormat, CorruptLog, ConfigError: a record cannot be used; the text names it.
        """
        try:
            if self._cluster is not None:
                await self._cluster.enter()
            await self.catalogs.keys.start()
            await self.context.log.start()
            await self.catalogs.sealing.prepare()
            await self.catalogs.principals.start()
            await self.catalogs.key_uses.start()
            await self.catalogs.ended_sessions.start()
            await self.catalogs.quotas.start()
            await self.catalogs.projections.start()
            await self.catalogs.topics.start()
            await self.catalogs.topic_groups.start()
            await self.catalogs.tables.start()
            await self.catalogs.keys.ensure(self._owners())
            await self.groups.start()
            if self._cluster is not None:
                await self._cluster.serve()
            await self.shards.start()
        except BaseException:
            await self.close()
            raise
        self.topic_upkeep.start()
        self.unknown_topics.start()
        self.space_upkeep.start()
        self.key_use_upkeep.start()
        self.catalogs.sealing.start()
        self.table_upkeep.start()
        self.kafka_groups.expiry.start()
        if self.metering is not None:
            self.metering.start()

    def _owners(self) -> Sequence[str]:
        """Of topics and tables."""
        topics, tables = self.catalogs.topics.all(), self.catalogs.tables.all()
        return [*(topic.owner for topic in topics), *(table.owner for table in tables)]

    @property
    def membership(self) -> Cluster | None:
        """This server's membership of a cluster; None: a single server."""
        return self._cluster

    async def take_requests(self) -> None:
        """Requests are answered from now on: what was lent for the restart may come back."""
        if self._cluster is not None:
            await self._cluster.take_back()

    async def announce_restart(self) -> None:
        """Announce the restart before the port refuses, so that it is not taken for a crash.

        By the setting it also lends this server's partitions, and waits until others have them.
        Calls that wait for a change of a group return.
        """
        self.groups.members.stop_waiting()
        self.kafka_groups.groups.stop()
        if self._cluster is not None:
            await self._cluster.announce_restart()

    async def close(self) -> None:
        """Stop the background tasks, seal the log; the stores stay open for their owner to close.

        A member of a cluster announces its restart first and leaves once all is sealed.
        """
        cluster = self._cluster
        closers: tuple[Callable[[], Awaitable[None]], ...] = (
            *((self.metering.close,) if self.metering else ()),
            *((cluster.retire,) if cluster else ()),
            self.topic_upkeep.close,
            self.unknown_topics.close,
            self.space_upkeep.close,
            self.key_use_upkeep.close,
            self.catalogs.sealing.close,
            self.table_upkeep.close,
            self.kafka_groups.expiry.close,
            self.kafka_groups.groups.close,
            self.groups.close,
            self.shards.close,  # before the log, since streams write there
            self.context.log.close,
            *((cluster.leave,) if cluster else ()),
            self.catalogs.tables.close,
            self.catalogs.topic_groups.close,
            self.catalogs.topics.close,
            self.catalogs.projections.close,
            self.catalogs.quotas.close,
            self.catalogs.ended_sessions.close,
            self.catalogs.key_uses.close,
            self.catalogs.principals.close,
            self.catalogs.keys.close,
        )
        self.context.blocks.close()
        for close in closers:
            try:
                await close()
            except TalosError as error:
                _LOG.warning("could not close cleanly: %s", error)

    def table_changed(self, old: Table | None, new: Table | None) -> None:
        """Forget the shards of a dropped table; a new one needs its owner's data key."""
        if new is not None:
            self.catalogs.keys.ensure_soon(new.owner)
        if old is not None and (new is None or new.state is TableState.DELETING):
            self.shards.forget(old.uuid)

    def set_advertise(self, address: str, kafka: str = "") -> None:
        """The addresses for schedule info and clients of Kafka, once the ports are known; a member
        of a cluster has them from the start."""
        if isinstance(self.context.ownership, SingleServerOwnership):
            self.context.ownership.advertise(address)
        if isinstance(self.kafka_nodes, SingleKafkaNode):
            self.kafka_nodes.advertise(kafka)


def _kafka_nodes(context: BrokerContext, cluster: Cluster | None) -> KafkaNodes:
    server = context.config.server
    if cluster is None:
        return SingleKafkaNode(server, context.epochs)
    return ClusterKafkaNodes(cluster.state, cluster.ownership, server)


def _metering(context: BrokerContext, system_topics: SystemTopics) -> Metering | None:
    settings = context.config.metering
    if settings is None:
        return None
    put = partial(system_topics.put, USAGE_TOPIC, key=context.config.server)
    return Metering(context, settings.interval_s, put)


def _seal_plan(config: BrokerConfig, cluster: Cluster | None) -> SealPlan:
    return SealPlan(
        server=config.server,
        servers=SERVERS if cluster is not None else "",
        memory=config.seal_memory,
        again=config.auth.seal_principals_again,
    )


class _Followers(NamedTuple):
    """Who is called when records change."""

    invalidate: Callable[[], None]  # of users and their quotas
    topic_changed: Callable[[Topic | None, Topic | None], None]
    table_changed: Callable[[Table | None, Table | None], None]


def _catalogs(
    meta: MetaStore,
    clock: Clock,
    config: BrokerConfig,
    plan: SealPlan,
    followers: _Followers,
    keys: TenantKeys,
) -> Catalogs:
    invalidate = followers.invalidate
    principals = PrincipalDirectory(meta, clock, config.secret_box, invalidate)
    return Catalogs(
        keys=keys,
        principals=principals,
        sealing=PrincipalSealing(meta, clock, principals, plan),
        key_uses=KeyUses(meta, clock, principals, config.auth.key_use_interval_s),
        ended_sessions=EndedSessions(meta, clock),
        quotas=QuotaCatalog(meta, invalidate),
        projections=ProjectionCatalog(meta),
        topics=TopicCatalog(meta, followers.topic_changed),
        topic_groups=TopicGroupCatalog(meta),
        tables=TableCatalog(meta, followers.table_changed),
    )


def open_broker(
    *,
    files: FileStore,
    meta: MetaStore,
    rows: RowStore,
    clock: Clock,
    config: BrokerConfig,
    peers: Peers | None = None,
) -> Broker:
    """Compose a broker; no I/O happens before ``start``. With ``peers`` it joins a cluster."""
    cluster = Cluster(meta, files, peers, clock, config) if peers is not None else None
    guard = cluster.guard if cluster is not None else SingleServerGuard()
    keys = TenantKeys(meta, clock, config.encryption)
    log = LogStore(
        files=files, meta=meta, clock=clock, server=config.server, limits=config.log, guard=guard
    )
    if config.encryption is not None:
        use_keys(log, keys)

    def topic_changed(old: Topic | None, new: Topic | None) -> None:  # by any server
        if new is not None and new.status == TopicStatus.ACTIVE:
            keys.ensure_soon(new.owner)
            if old is None or log_settings(old, config) != log_settings(new, config):
                log.update_topic(log_settings(new, config))
            if old is not None and old.quota != new.quota:
                throttle.invalidate()
        elif old is not None:
            if broker.metering is not None:
                broker.metering.topic_gone(old)
            throttle.invalidate()
            broker.messages.routes.forget()
        if old is not None and (new is None or new.uuid != old.uuid):
            spaces.forget(old)
            log.forget_topic(old.uuid)
            broker.groups.directory.forget_topic(old.uuid)
        if cluster is not None:
            cluster.topic_changed()

    followers = _Followers(
        invalidate=lambda: throttle.invalidate(),
        topic_changed=topic_changed,
        table_changed=lambda old, new: broker.table_changed(old, new),
    )
    catalogs = _catalogs(meta, clock, config, _seal_plan(config, cluster), followers, keys)
    spaces = SpaceLedger(config.quota, catalogs.quotas.user)
    throttle = Throttle(config.quota, spaces, catalogs.quotas.user)
    audit = AuditTrail(clock, config.audit, config.server)
    context = BrokerContext(
        config=config,
        clock=clock,
        log=log,
        topics=catalogs.topics,
        authorizer=Authorizer(config.auth, audit.denied),
        audit=audit,
        throttle=throttle,
        spaces=spaces,
        ownership=cluster.ownership if cluster else SingleServerOwnership(config.advertise),
        epochs=cluster.epochs if cluster else SingleServerEpochs(clock.wall_ms()),
        keys=keys,
        peers=peers,
    )
    groups = Coordinator(rows, clock, config.group, config.server, guard.certain)
    use_positions(log, ReadPositions(groups.rows).read_by_groups)
    if cluster is not None:
        cluster.attach(log, catalogs.topics)
    table_rows = EncryptedRows(rows, keys, catalogs.tables.by_uuid) if config.encryption else rows
    broker = Broker(context, catalogs, groups, Stores(meta=meta, rows=table_rows), cluster)
    if cluster is not None:
        _follow(cluster, broker)
    return broker


def _follow(cluster: Cluster, broker: Broker) -> None:
    """Groups and shards follow the ring; shards end with the session.

    Groups continue without it, since their rows decide; see GroupDirectory. What memory has of them
    is read again once another server may have used them.
    """
    coordinates = cluster.coordinates

    def ring_changed() -> None:
        broker.groups.ownership_changed(coordinates)
        broker.shards.ownership_changed()

    cluster.follow(
        lapsed=broker.shards.forget_all,
        returned=broker.groups.forget_all,
        ring_changed=ring_changed,
    )
