"""BrokerContext: what all use cases of a broker share: catalog, access decision, quotas, log."""

from dataclasses import dataclass, field

from opentalos.broker.audit.trail import AuditTrail
from opentalos.broker.cluster.ownership import LeaderEpochs, Ownership
from opentalos.broker.long_work import LongWork
from opentalos.broker.messaging.block_reader import BlockReader
from opentalos.broker.quota.egress import EgressCounters
from opentalos.catalog.access.authorize import Authorizer, topic_not_exist
from opentalos.catalog.encryption.tenant_keys import EncryptionPlan, TenantKeys
from opentalos.catalog.principals.seal import SealMemory
from opentalos.catalog.principals.secret_box import SecretBox
from opentalos.catalog.quota.space import SpaceLedger
from opentalos.catalog.quota.tenant_rates import TenantRates
from opentalos.catalog.quota.throttle import Throttle
from opentalos.catalog.topics.topic import Topic
from opentalos.catalog.topics.topics import TopicCatalog, topic_by_uuid
from opentalos.log.log_store import LogStore, TopicLogSettings
from opentalos.log.metering.meter import MINUTE_MS
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import NothingThere, TopicNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.limits import (
    ClusterLimits,
    GroupLimits,
    LogLimits,
    MessageLimits,
    MeteringSettings,
    QuotaApprovalLimits,
    QuotaLimits,
    SystemTopicSettings,
    TopicLimits,
)
from opentalos.model.names import SYSTEM_TENANT, USAGE_TOPIC
from opentalos.model.settings.kafka import KafkaGroupLimits
from opentalos.model.settings.security import AuditSettings, AuthLimits
from opentalos.model.settings.tables import SdsLimits
from opentalos.ports.clock import Clock
from opentalos.ports.invoices import PublishedInvoices
from opentalos.ports.offload import Offload
from opentalos.ports.peers import Peers

SETTINGS_MAX = 10_000  # topics whose log settings are cached
_START_BYTES = 8  # of a random name of one start of a server


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of a broker. ``advertise`` is an address (model/address.py).

    ``server`` stays the same after a restart; ``incarnation`` differs after each start.
    """

    server: str
    advertise: str
    kafka: str = ""  # HOST:PORT that clients of Kafka are given; of a member of a cluster
    secret_box: SecretBox
    seal_memory: SealMemory | None = None  # None: see SealPlan
    encryption: EncryptionPlan | None = None  # None: this server has no encryption key
    # Sessions are signed with it; empty: with a random one, so that they end with the process.
    session_key: bytes = field(default=b"", repr=False)
    incarnation: str = ""
    cluster: ClusterLimits | None = None  # needed with peers
    drain_s: float = 0.0  # a stop waits this long for requests, between lending and sealing
    log: LogLimits = field(default_factory=LogLimits)
    auth: AuthLimits = field(default_factory=AuthLimits)
    audit: AuditSettings = field(default_factory=AuditSettings)
    message: MessageLimits = field(default_factory=MessageLimits)
    topic: TopicLimits = field(default_factory=TopicLimits)
    group: GroupLimits = field(default_factory=GroupLimits)
    kafka_group: KafkaGroupLimits = field(default_factory=KafkaGroupLimits)
    quota: QuotaLimits = field(default_factory=QuotaLimits)
    quota_approval: QuotaApprovalLimits = field(default_factory=QuotaApprovalLimits)
    sds: SdsLimits = field(default_factory=SdsLimits)
    metrics_topic: SystemTopicSettings = field(default_factory=SystemTopicSettings)
    usage_topic: SystemTopicSettings = field(default_factory=SystemTopicSettings)
    metering: MeteringSettings | None = None  # None: nothing is metered
    series_step_ms: int = 10_000  # between samples of series
    series_bytes_max: int = 8 << 20  # memory for series; 0: there are none
    minute_ms: int = MINUTE_MS  # of metering; simulations have shorter minutes
    native_commits: bool = False  # of the file store; only shown
    invoices: PublishedInvoices | None = None  # None: this server shows none
    offload: Offload | None = None  # None: such work runs on the loop, as in a simulation


@dataclass(slots=True, kw_only=True)
class BrokerContext:
    """Handed to every service of one broker."""

    config: BrokerConfig
    clock: Clock
    log: LogStore
    topics: TopicCatalog
    authorizer: Authorizer
    audit: AuditTrail
    throttle: Throttle
    spaces: SpaceLedger
    ownership: Ownership
    epochs: LeaderEpochs
    keys: TenantKeys
    peers: Peers | None = None  # None: a single server
    # Asked before every change of a topic, table, grant, topic group or request for quota.
    changes: TenantRates = field(init=False)
    # Asked before administrative calls of Kafka clients that change nothing of that.
    admin_items: TenantRates = field(init=False)
    work: LongWork = field(init=False)
    blocks: BlockReader = field(init=False)
    egress: EgressCounters | None = field(init=False)  # None: reads are not metered
    _settings: dict[str, tuple[Topic, TopicLogSettings]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = self.config.message
        quota = self.config.quota
        self.changes = TenantRates("changes", quota.tenant_changes_per_s, quota.throttle_max_s)
        rate = quota.tenant_admin_items_per_s
        self.admin_items = TenantRates("administrative items", rate, quota.throttle_max_s)
        self.work = LongWork(self.config.offload, limits.decodes_waiting_max)
        self.blocks = BlockReader(self.work, limits.decoded_bytes_kept_max)
        self.egress = _egress(self.clock, self.config)

    def topic(self, caller: Principal, action: Permission, resource: str) -> Topic:
        """The topic of a resource name, if the caller may do this to it; sync, hot path.

        Raises: TopicNotExist, PermissionDenied.
        """
        topic = self.topics.by_resource(resource)
        if topic is None:
            raise topic_not_exist(resource)
        self.authorizer.authorize(caller, action, topic)
        return topic

    def find_topic(self, caller: Principal, action: Permission, name: str) -> Topic:
        """The topic of a plain name, ``owner/name`` or resource name; like ``topic``."""
        topic = self.topics.find(caller, name)
        try:
            self.authorizer.authorize(caller, action, topic)
        except TopicNotExist as error:
            # The same text as for an unknown name.
            raise TopicNotExist(str(topic_not_exist(name)), error.records) from None
        return topic

    def topic_of_uuid(self, caller: Principal, action: Permission, uuid: str) -> Topic:
        """The topic of a uuid, if the caller may do this to it; sync, hot path.

        Raises: TopicNotExist, PermissionDenied.
        """
        topic = topic_by_uuid(self.topics, uuid)
        if topic is None:
            raise topic_not_exist(uuid)
        try:
            self.authorizer.authorize(caller, action, topic)
        except TopicNotExist:
            raise topic_not_exist(uuid) from None
        return topic

    async def appeared(self, error: NothingThere) -> bool:
        """Whether another server has just made or changed the topic, so that the call that
        failed should be repeated. Raises: Unavailable."""
        return self.peers is not None and await self.topics.unseen.look(error.records)

    def partition_log(self, topic: Topic, partition: int) -> PartitionLog:
        """The log of a partition that this server serves; no I/O; hot path.

        Raises: NotOwner: another server serves it. TopicNotExist: the topic was deleted since the
            caller looked it up; its logs must not come back to memory.
        """
        if self.topics.by_resource(topic.resource) is None:
            raise topic_not_exist(topic.resource)
        self.ownership.check(topic.uuid, partition)
        cached = self._settings.get(topic.uuid)
        if cached is None or cached[0] is not topic:
            if len(self._settings) >= SETTINGS_MAX:
                self._settings.clear()
            cached = self._settings[topic.uuid] = (topic, log_settings(topic, self.config))
        return self.log.partition(cached[1], partition)


def _egress(clock: Clock, config: BrokerConfig) -> EgressCounters | None:
    if config.metering is None or not config.metering.egress:
        return None
    start = config.incarnation or clock.token(_START_BYTES).hex()
    return EgressCounters(clock, f"{config.server}/{start}", config.minute_ms)


def log_settings(topic: Topic, config: BrokerConfig) -> TopicLogSettings:
    """A topic's settings for the log; the service's own topics are not metered."""
    of_service = topic.owner == SYSTEM_TENANT
    metering = None if of_service else config.metering
    return TopicLogSettings(
        topic_uuid=topic.uuid,
        durability=topic.durability,
        retention_s=topic.retention_s,
        retention_bytes=topic.retention_bytes,
        minute_ms=0 if metering is None else config.minute_ms,
        reports_kept=metering is not None and metering.storage,
        tenant=topic.owner,
        # Without it a full disk would stay full: retention drops only metered messages.
        uses_reserve=of_service and topic.name == USAGE_TOPIC,
    )
