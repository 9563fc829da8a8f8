"""Every limit of the server, as sections of the configuration file.

Each dataclass is one TOML section and each field one key, with its unit in the name. Constructors
check how keys relate. ``scripts/generate_config_reference.py`` makes the reference page from the
docstrings and the comments on the fields.
"""

from dataclasses import dataclass

# While all open segments are in use, so many times ``segments_open_max`` may be open.
SEGMENTS_HARD_FACTOR = 2
_JOURNAL = ("auto", "on", "off")


def need(condition: bool, text: str) -> None:
    if not condition:
        raise ValueError(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """[log] Limits of the partition log."""

    group_bytes_max: int = 4 << 20  # payload bytes of a group commit; one larger block still fits
    group_blocks_max: int = 512  # blocks of one group commit; two buffers each stay below IOV_MAX
    pending_bytes_max: int = 64 << 20  # waiting for commit, per partition
    pending_bytes_total_max: int = 256 << 20  # whole server; a tenant may have what is still free
    segment_bytes_max: int = 128 << 20  # a segment is sealed at this size
    segment_bytes_hard_max: int = (
        2 << 30
    )  # limit while the meta store is away; fits a block on HDFS
    segment_age_max_s: float = 3600.0  # an open segment is sealed at this age
    segments_open_max: int = 0  # open segments before idle ones are sealed; 0: what memory allows
    idle_seal_s: float = 300.0  # an open segment without puts is sealed after this time
    index_interval_bytes: int = 64 << 10  # segment bytes per index entry
    tail_cache_bytes_max: int = 128 << 20  # recent blocks kept in memory, whole server
    lanes: int = 2  # concurrent commits while none stalls; 2 suit a disk, slower stores need more
    lanes_max: int = 32  # including lanes that stalled commits occupy
    lane_stall_ms: int = 20  # a commit longer than this is stalled and no longer counts in lanes
    commit_hang_s: float = 1.0  # a commit that hangs so long is given up for a fresh file
    commit_deadline_s: float = 10.0  # every waiting put is answered within, whatever hangs
    recover_deadline_s: float = 10.0  # to fence and measure the last segment of a failed owner
    reopen_attempts_max: int = 8  # after failed commits, before waiting puts are rejected
    merge_segments_min: int = 8  # adjacent small segments that are merged into one; 0: never
    retention_interval_s: float = 30.0  # between passes of retention and idle sealing
    delete_grace_s: float = 60.0  # a dropped segment's file stays this long for current readers
    clock_disagree_max_s: float = 300.0  # of the wall clock; beyond it nothing is deleted by age
    clock_confirm_s: float = 3600.0  # a single server believes a clock in doubt after this time
    end_mark_ms: int = 50  # idle for so long, a partition's last commit gets a witness; 0: never
    scrub_bytes_per_s: int = 2 << 20  # sealed segments are verified at this rate; 0: never
    scrub_interval_s: float = 86_400.0  # at least so long between the starts of two passes
    journal: str = "auto"  # a commit takes many partitions: on, off, or auto: on without a cluster
    journals: int = 2  # written at the same time, each with syncs of its own
    journal_bytes_max: int = 64 << 20  # of them together; beyond it segments are written out
    journal_files_open_max: int = 0  # of segments, made late; 0: a few on HDFS, else all are open
    close_s: float = 1.5  # for sealing at shutdown; the next start recovers unsealed segments
    space_reserve_bytes: int = 256 << 20  # puts are rejected when less space is free
    group_commit: bool = True  # false: one block per commit, to measure the gain of group commit

    def __post_init__(self) -> None:
        need(
            0 < self.group_bytes_max <= self.pending_bytes_max,
            "need 0 < group_bytes_max <= pending_bytes_max",
        )
        need(
            self.pending_bytes_max <= self.pending_bytes_total_max,
            "need pending_bytes_max <= pending_bytes_total_max",
        )
        need(0 < self.lanes <= self.lanes_max, "need 0 < lanes <= lanes_max")
        need(1 <= self.commit_deadline_s, "need commit_deadline_s >= 1")
        need(
            0 < self.commit_hang_s <= self.commit_deadline_s,
            "need 0 < commit_hang_s <= commit_deadline_s",
        )
        need(self.group_blocks_max > 0, "need group_blocks_max > 0")
        need(self.segment_bytes_max >= 1 << 10, "need segment_bytes_max >= 1 KiB")
        hard_max = self.segment_bytes_hard_max
        need(self.segment_bytes_max <= hard_max, "need segment_bytes_max <= segment_bytes_hard_max")
        need(
            self.merge_segments_min == 0 or self.merge_segments_min > 1,
            "need merge_segments_min 0 or > 1",
        )
        need(self.segments_open_max >= 0, "need segments_open_max >= 0")
        need(self.index_interval_bytes >= 1 << 9, "need index_interval_bytes >= 512")
        need(self.journal in _JOURNAL, f"need journal {', '.join(_JOURNAL)}")
        need(1 <= self.journals <= 8, "need 1 <= journals <= 8")
        need(self.journal_bytes_max >= 1 << 10, "need journal_bytes_max >= 1 KiB")
        need(self.journal_files_open_max >= 0, "need journal_files_open_max >= 0")
        need(self.retention_interval_s > 0, "need retention_interval_s > 0")
        need(self.end_mark_ms >= 0, "need end_mark_ms >= 0")
        need(self.scrub_bytes_per_s >= 0, "need scrub_bytes_per_s >= 0")
        need(self.scrub_interval_s > 0, "need scrub_interval_s > 0")

    @property
    def journaled(self) -> bool:
        """Whether a journal is written; a server has replaced ``auto`` before."""
        return self.journal == "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """[http] Limits of the HTTP port."""

    body_bytes_max: int = 32 << 20  # larger bodies are rejected with 413 before they are read
    bodies_bytes_total_max: int = 512 << 20  # request bodies in memory, whole server
    header_bytes_max: int = 16 << 10  # request line and headers
    connections_max: int = 10_000
    connections_address_max: int = 2_000  # of a client address or IPv6 /64; not loopback; 0: none
    request_timeout_s: float = 30.0  # from the first byte of a request to its last
    idle_timeout_s: float = 120.0  # for a keep-alive connection without a request
    write_stall_s: float = 30.0  # a client that does not read its reply is disconnected
    drain_s: float = 3.0  # time for requests under way to finish after SIGTERM
    failure_lines_per_s_max: int = (
        100  # log lines of failed requests; further ones are only counted
    )

    def __post_init__(self) -> None:
        need(
            0 < self.body_bytes_max <= self.bodies_bytes_total_max,
            "need 0 < body_bytes_max <= bodies_bytes_total_max",
        )
        need(self.header_bytes_max >= 1 << 10, "need header_bytes_max >= 1 KiB")
        need(self.connections_max > 0, "need connections_max > 0")
        need(self.connections_address_max >= 0, "need connections_address_max >= 0")
        timeouts_s = (self.request_timeout_s, self.idle_timeout_s, self.write_stall_s)
        need(min(timeouts_s) > 0, "need request_timeout_s, idle_timeout_s, write_stall_s > 0")
        need(0 < self.drain_s <= 4.0, "need 0 < drain_s <= 4, so that SIGTERM ends within 5 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """[metrics] Who may read /metrics, which is on the clients' port."""

    access: str = "admin"  # admin: an administrator's key is required; open: no key
    topics_max: int = 0  # the busiest topics get their own series; the rest is "other"
    groups_max: int = 50  # the groups with most lag get their own series; the rest is "other"

    def __post_init__(self) -> None:
        need(self.access in ("admin", "open"), 'access must be "admin" or "open"')
        need(0 <= self.groups_max <= 10_000, "need 0 <= groups_max <= 10000")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """[tracing] Spans of requests that clients trace with the header traceparent."""

    otlp: str = (
        ""  # URL of a collector of OTLP over HTTP, such as http://127.0.0.1:4318; empty: none
    )

    def __post_init__(self) -> None:
        need(
            not self.otlp or self.otlp.startswith(("http://", "https://")),
            "otlp must be the URL of a collector, such as http://127.0.0.1:4318",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTopicSettings:
    """Settings of an internal topic at creation; an administrator may change them later."""

    partitions: int = 4
    retention_s: int = 7 * 86_400
    retention_bytes: int = 0  # per partition; 0: only age decides


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringSettings:
    """[measuring] Measurements of this server, for the topic __metrics and for series in memory."""

    enabled: bool = True  # they are written to __metrics
    step_s: float = 10.0  # interval between measurements, aligned to the clock
    rows_max: int = 1_000  # partitions with their own row per interval; the others share one
    spool_bytes_max: int = (
        64 << 20
    )  # kept on disk while the topic is unavailable; the oldest are dropped first
    partitions: int = 4  # of __metrics at creation
    retention_s: int = 7 * 86_400  # of __metrics at creation
    retention_bytes: int = 2 << 30  # of each partition of __metrics at creation; 0: no limit
    series_bytes_max: int = 8 << 20  # memory for series of the last hour, day and week; 0: none
    olap: str = ""  # URL of a broker of Druid with the pipeline's tables, for longer series

    def __post_init__(self) -> None:
        need(1.0 <= self.step_s <= 3_600.0, "need 1 <= step_s <= 3600")
        need(float(self.step_s).is_integer(), "step_s must be a whole number of seconds")
        need(0 < self.rows_max <= 10_000, "need 0 < rows_max <= 10000")
        need(self.spool_bytes_max >= 1 << 20, "need spool_bytes_max >= 1 MiB")
        need(self.partitions > 0, "need partitions > 0")
        need(
            self.series_bytes_max == 0 or self.series_bytes_max >= 1 << 20,
            "need series_bytes_max >= 1 MiB, or 0",
        )
        need(
            not self.olap or self.olap.startswith(("http://", "https://")),
            "olap must be the URL of a broker of Druid, such as http://127.0.0.1:8082",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteringSettings:
    """[metering] Storage use of tenants, counted from the log and written to the topic __usage."""

    enabled: bool = True
    interval_s: float = 30.0  # between usage events of the current minute
    egress: bool = True  # also count what is read; update pipelines before servers
    storage: bool = True  # also report how long messages are kept; likewise
    storage_interval_s: float = 3_600.0  # between reports of a partition that is kept
    partitions: int = 4  # of __usage at creation
    retention_s: int = 40 * 86_400  # of __usage at creation; a month can be billed again

    def __post_init__(self) -> None:
        need(0.0 < self.interval_s <= 3_600.0, "need 0 < interval_s <= 3600")
        need(0.0 < self.storage_interval_s <= 86_400.0, "need 0 < storage_interval_s <= 86400")
        need(self.partitions > 0, "need partitions > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    """[message] Limits of puts and gets."""

    block_bytes_max: int = 20 << 20  # one compressed block
    block_messages_max: int = 100_000  # messageNumber of one block
    get_messages_max: int = 20_000  # newer Go clients request this many
    get_bytes_max: int = 10 << 20  # of one reply, unless its first block is larger
    get_wait_s: float = 0.5  # an empty getMessage waits this long for new messages
    get_waiting_max: int = 10_000  # getMessage calls that wait at once
    preview_messages_max: int = 20
    # For REST, which reads single messages: decompressed blocks that are kept for the next read.
    decoded_bytes_kept_max: int = 128 << 20
    decodes_waiting_max: int = 64  # calls of one caller that wait for large blocks to be decoded

    def __post_init__(self) -> None:
        need(0 < self.block_bytes_max, "need block_bytes_max > 0")
        need(0 < self.block_messages_max, "need block_messages_max > 0")
        need(0 < self.get_messages_max, "need get_messages_max > 0")
        need(0 < self.get_bytes_max, "need get_bytes_max > 0")
        need(0 <= self.decoded_bytes_kept_max, "need decoded_bytes_kept_max >= 0")
        need(0 < self.decodes_waiting_max, "need decodes_waiting_max > 0")
        need(0 <= self.get_wait_s <= 4, "need get_wait_s <= 4: clients time out after 5 s")


# Of a topic, whatever is configured: one control record names the servers of all its partitions,
# and one call returns all their offsets.
PARTITIONS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """[topic] Limits and defaults of topics."""

    # Source: docs/protocol/administration.md#topic-attributes.
    partitions_default: int = 8
    partitions_max: int = 256  # of one topic; at most 10,000
    retention_default_s: int = 86_400
    retention_min_s: int = 3_600
    retention_max_s: int = 365 * 86_400
    attributes_bytes_max: int = 64 << 10
    topics_max: int = 100_000  # whole server
    change_partition_interval_s: float = 5.0  # between changes of a topic's partition count
    shrink_force_s: float = (
        86_400.0  # a shrink completes after this time even if a group has not drained
    )

    def __post_init__(self) -> None:
        need(
            0 < self.partitions_default <= self.partitions_max <= PARTITIONS_MAX,
            f"need 0 < partitions_default <= partitions_max <= {PARTITIONS_MAX}",
        )
        need(
            self.retention_min_s <= self.retention_default_s <= self.retention_max_s,
            "need retention_min_s <= retention_default_s <= retention_max_s",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """[group] Limits of consumer groups."""

    # Source: docs/protocol/consumers.md#leases.
    lease_s: float = 30.0  # clients renew every 7 s
    workers_max: int = 1_000  # per group and topic
    groups_max: int = 1_000  # per topic, of its owner; as many of all other tenants together
    groups_of_tenant_max: int = 100  # per topic, of one tenant that does not own it

    def __post_init__(self) -> None:
        need(self.lease_s > 0, "need lease_s > 0")
        need(self.workers_max > 0, "need workers_max > 0")
        need(self.groups_max > 0, "need groups_max > 0")
        need(self.groups_of_tenant_max > 0, "need groups_of_tenant_max > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """[quota] Default quotas."""

    # Source of the limits of users and topics: docs/protocol/administration.md#quotas.
    throttle_max_s: float = (
        3.0  # a request over its rate is delayed at most this long, then rejected
    )
    throttled_bytes_max: int = 64 << 20  # bytes of delayed puts, whole server
    user_space_bytes: int = 1 << 40
    user_put_requests_per_s: int = 40_000
    user_get_requests_per_s: int = 40_000
    user_put_bytes_per_s: int = 500 << 20
    user_get_bytes_per_s: int = 500 << 20
    user_topics: int = 10_000
    topic_space_bytes: int = 500 << 30
    topic_put_requests_per_s: int = 40_000
    topic_get_requests_per_s: int = 40_000
    topic_put_bytes_per_s: int = 500 << 20
    topic_get_bytes_per_s: int = 500 << 20
    partition_put_bytes_per_s: int = 0  # 0: no limit
    partition_get_requests_per_s: int = 0  # 0: no limit
    organisation_put_bytes_per_s: int = 0  # 0: no limit
    organisation_get_bytes_per_s: int = 0  # 0: no limit
    organisation_partitions: int = 10_000  # until an administrator approves more
    user_partitions: int = 10_000  # of an owner without an organisation; 0: no limit
    tenant_changes_per_s: int = 200  # of topics, tables and grants, on each server; 0: no limit
    tenant_admin_items_per_s: int = 20_000  # that Kafka's tools name, on each server; 0: no limit

    def __post_init__(self) -> None:
        need(0 <= self.throttle_max_s <= 4, "need throttle_max_s <= 4: clients time out after 5 s")
        need(
            min(self.user_partitions, self.tenant_changes_per_s, self.tenant_admin_items_per_s)
            >= 0,
            "need user_partitions, tenant_changes_per_s, tenant_admin_items_per_s >= 0",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaApprovalLimits:
    """[quota_approval] Which partition requests are decided automatically."""

    capacity_partitions: int = 0  # of the whole cluster; 0: unknown, requires manual approval
    capacity_bytes_per_s: int = 0  # peak put rate of the whole cluster; 0: unknown
    fill_max: float = 0.8  # share of the capacity that is granted automatically
    partition_bytes_per_s: int = 5_000_000  # planned traffic of a partition, reserve included
    reserve: float = 0.5  # share added to the expected traffic
    floor_partitions: int = 8  # granted without history while there is capacity
    horizon_days: int = 30  # period that a grant must cover
    history_days_min: int = 14  # shows a weekly season; less requires manual approval
    projection_age_max_days: int = 3  # an older projection requires manual approval
    spreads: float = 2.0  # standard deviations added to the expected traffic
    slack: float = 1.5  # requests up to this multiple of the need are granted
    exaggeration: float = 3.0  # requests beyond this multiple of the need are rejected
    growth_max: float = 4.0  # larger growth within the horizon requires manual approval

    def __post_init__(self) -> None:
        need(0 < self.fill_max <= 1, "need 0 < fill_max <= 1")
        need(self.partition_bytes_per_s > 0, "need partition_bytes_per_s > 0")
        need(self.horizon_days > 0, "need horizon_days > 0")
        need(self.history_days_min > 0, "need history_days_min > 0")
        need(self.projection_age_max_days > 0, "need projection_age_max_days > 0")
        need(1 <= self.slack <= self.exaggeration, "need 1 <= slack <= exaggeration")
        need(self.growth_max >= 1, "need growth_max >= 1")
        room = self.capacity_partitions * self.fill_max
        known = self.capacity_partitions > 0
        need(
            not known or self.floor_partitions <= room,
            "need floor_partitions <= capacity_partitions * fill_max",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """[cluster] Several servers over shared storage; used with zookeeper:// meta only."""

    name: str = ""  # of this server, stable over restarts; empty: the one in its DATA
    key_file: str = ""  # 32 bytes in base64, the same on all servers; empty: DATA/server.key
    virtual_nodes: int = 128  # of a server on the hash ring while no weights are set
    stable_after_s: float = 10.0  # a joining server gets partitions after this time
    restart: str = "wait"  # wait: its partitions wait for it; lend: others serve them meanwhile
    restart_s: float = 20.0  # partitions stay reserved this long for an announced restart
    probe_interval_s: float = 0.25  # between probes of another server's port
    probe_confirm_s: float = (
        0.2  # a refused connection is probed again after this time before it counts
    )
    handover_s: float = 2.0  # a new owner waits this long, with journals 4 times, for the seal
    moves_at_once: int = 64  # planned moves in the whole cluster; with late segments fewer
    peer_connections_max: int = 64  # to one other server
    peer_timeout_s: float = 10.0  # of one call to another server
    stop_s: float = 15.0  # from SIGTERM to exit; half to seal; less than restart_s

    def __post_init__(self) -> None:
        need(self.virtual_nodes > 0, "need virtual_nodes > 0")
        need(self.restart in ("wait", "lend"), 'restart must be "wait" or "lend"')
        need(self.probe_interval_s > 0, "need probe_interval_s > 0")
        need(self.moves_at_once > 0, "need moves_at_once > 0")
        need(self.peer_connections_max > 0, "need peer_connections_max > 0")
        need(self.peer_timeout_s > 0, "need peer_timeout_s > 0")
        need(5.0 <= self.stop_s < self.restart_s, "need 5 <= stop_s < restart_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmLimits:
    """[jvm] The Java virtual machine inside the process, for hdfs:// and hbase:// storage."""

    jars: str = ""  # folder of the client jars; empty: the folder of talos backend fetch
    heap_mb: int = 256  # maximum heap

    def __post_init__(self) -> None:
        need(self.heap_mb >= 64, "need heap_mb >= 64")


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsLimits:
    """[hdfs] The message log in HDFS."""

    conf_dir: str = ""  # core-site.xml and hdfs-site.xml; empty: HADOOP_CONF_DIR
    replication: int = 3
    replicas_min: int = 1  # DataNodes a commit must reach to be acknowledged
    block_bytes: int = 256 << 20  # at least [log] segment_bytes_max + the largest group + 1 MiB
    threads: int = 8  # concurrent commits; up to four times as many while HDFS is slow
    commit_timeout_s: float = 10.0  # a commit without an answer after this time closes its file
    datanode_timeout_s: float = 10.0  # plus 5 s per replica, then the client abandons a DataNode
    call_timeout_s: float = 15.0  # of one call to the NameNode
    end_marks: bool = False  # true: [log] end_mark_ms holds on HDFS too, which has checksums
    kerberos_principal: str = ""  # with kerberos_keytab; empty: no login
    kerberos_keytab: str = ""

    def __post_init__(self) -> None:
        need(0 < self.replicas_min <= self.replication, "need 0 < replicas_min <= replication")
        need(self.block_bytes >= 1 << 20, "need block_bytes >= 1 MiB")
        need(self.block_bytes % 4096 == 0, "need block_bytes to be a multiple of 4096")
        need(self.threads > 0, "need threads > 0")
        timeouts_s = (self.commit_timeout_s, self.datanode_timeout_s, self.call_timeout_s)
        need(min(timeouts_s) > 0, "need commit_timeout_s, datanode_timeout_s, call_timeout_s > 0")
        need(
            bool(self.kerberos_principal) == bool(self.kerberos_keytab),
            "set both kerberos_principal and kerberos_keytab, or neither",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperLimits:
    """[zookeeper] The coordination service."""

    session_s: float = 6.0  # others take over from a server that is silent for this long
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 10.0
    auth: str = ""  # SCHEME:CREDENTIAL, such as digest:user:password; empty: none
    auth_file: str = ""  # file with that credential, so that it is not in the configuration
    tombstone_s: float = 86_400.0  # a removed record keeps its version this long

    def __post_init__(self) -> None:
        need(self.session_s > 0, "need session_s > 0")
        need(not (self.auth and self.auth_file), "set auth or auth_file, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class HbaseLimits:
    """[hbase] The store of consumer groups and tables."""

    conf_dir: str = ""  # folder of hbase-site.xml; empty: HBASE_CONF_DIR, else the URL alone
    threads: int = 8  # concurrent calls
    connect_timeout_s: float = 30.0  # at start, until the namespace exists
    call_timeout_s: float = 10.0  # of one call, including its retries

    def __post_init__(self) -> None:
        need(self.threads > 0, "need threads > 0")
        need(self.call_timeout_s >= 1, "need call_timeout_s >= 1")
