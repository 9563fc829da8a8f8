"""Every bound of the server, as the sections of the configuration file.

Each dataclass is one TOML section; each field one key, with its unit in the name. Relations are
checked on construction. The reference page is generated from these classes and their comments.
"""

from dataclasses import dataclass


def _need(condition: bool, text: str) -> None:
    if not condition:
        raise ValueError(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """[log] Bounds of the partition log."""

    group_bytes_max: int = 4 << 20  # payload bytes of one commit; one block may be larger
    group_blocks_max: int = 512  # blocks of one commit; two chunks each stay below IOV_MAX
    pending_bytes_max: int = 64 << 20  # waiting for commit, per partition
    pending_bytes_total_max: int = 256 << 20  # waiting for commit, whole server
    segment_bytes_max: int = 128 << 20  # a segment is sealed at this size
    segment_bytes_hard_max: int = 2 << 30  # while coordination is away; on HDFS what fits a block
    segment_age_max_s: float = 3600.0  # an open segment is sealed at this age
    segments_open_max: int = 256  # files open for writing at once; the idlest is sealed first
    idle_seal_s: float = 300.0  # a partition without puts for so long is sealed
    index_interval_bytes: int = 64 << 10  # one index entry per so many bytes of a segment
    tail_cache_bytes_max: int = 128 << 20  # recent blocks kept in memory, whole server
    lanes: int = 2  # commits at once while none stalls; 2 suit a disk, slower stores want more
    lanes_max: int = 32  # with the lanes that stalled commits keep busy
    lane_stall_ms: int = 20  # a commit longer than this keeps its lane for itself; others move on
    recover_deadline_s: float = 10.0  # fencing and measuring the last segment of a dead owner
    reopen_attempts_max: int = 8  # after failed commits, before waiting puts are refused
    retention_interval_s: float = 30.0  # between two passes of retention and idle sealing
    delete_grace_s: float = 60.0  # a dropped segment's file stays for readers under way
    clock_disagree_max_s: float = 300.0  # wall against loop clock; beyond it retention stands
    close_s: float = 1.5  # sealing at shutdown; what is not sealed then is recovered at start
    space_reserve_bytes: int = 256 << 20  # puts are refused below this much free space
    group_commit: bool = True  # False: one block per commit, to measure what grouping gains

    def __post_init__(self) -> None:
        _need(0 < self.group_bytes_max <= self.pending_bytes_max, "need 0 < group <= pending")
        _need(self.pending_bytes_max <= self.pending_bytes_total_max, "need pending <= total")
        _need(0 < self.lanes <= self.lanes_max, "need 0 < lanes <= lanes_max")
        _need(self.group_blocks_max > 0, "need group_blocks_max > 0")
        _need(self.segment_bytes_max >= 1 << 10, "need segment_bytes_max >= 1 KiB")
        hard_max = self.segment_bytes_hard_max
        _need(self.segment_bytes_max <= hard_max, "need segment_bytes_max <= _hard_max")
        _need(self.segments_open_max > 0, "need segments_open_max > 0")
        _need(self.index_interval_bytes >= 1 << 9, "need index_interval_bytes >= 512")
        _need(self.retention_interval_s > 0, "need retention_interval_s > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """[http] Bounds of the HTTP port."""

    body_bytes_max: int = 32 << 20  # larger bodies get 413 before they are read
    bodies_bytes_total_max: int = 512 << 20  # request bodies in memory, whole server
    header_bytes_max: int = 16 << 10  # request line and headers
    connections_max: int = 10_000
    request_timeout_s: float = 30.0  # from the first byte of a request to its last
    idle_timeout_s: float = 120.0  # a kept-alive connection without a request
    write_stall_s: float = 30.0  # a client that does not read its reply
    drain_s: float = 3.0  # requests under way may finish so long after SIGTERM
    failure_lines_per_s_max: int = 100  # log lines of failed requests; the rest is only counted

    def __post_init__(self) -> None:
        _need(0 < self.body_bytes_max <= self.bodies_bytes_total_max, "need 0 < body <= total")
        _need(self.header_bytes_max >= 1 << 10, "need header_bytes_max >= 1 KiB")
        _need(self.connections_max > 0, "need connections_max > 0")
        timeouts_s = (self.request_timeout_s, self.idle_timeout_s, self.write_stall_s)
        _need(min(timeouts_s) > 0, "need request_timeout_s, idle_timeout_s, write_stall_s > 0")
        _need(0 < self.drain_s <= 4.0, "need 0 < drain_s <= 4, so that SIGTERM ends within 5 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """[tls] TLS of the port. Files are PEM; a changed one is taken over without a restart."""

    cert_file: str = ""  # this server's certificate and its intermediates; empty: plain HTTP
    key_file: str = ""  # its private key, without a pass phrase
    client_ca_file: str = ""  # if set, clients must show a certificate that one of these signed
    peer_ca_file: str = ""  # who signs the other servers' certificates; empty: the system's list
    minimum_version: str = "1.2"  # of TLS; or 1.3
    handshake_timeout_s: float = 10.0  # from the connection to the end of its handshake
    handshakes_max: int = 2_000  # under way at once; more are cut
    reload_interval_s: float = 5.0  # between two looks at the files

    def __post_init__(self) -> None:
        both = bool(self.cert_file) == bool(self.key_file)
        _need(both, "need cert_file and key_file, or neither")
        _need(bool(self.cert_file) or not self.client_ca_file, "client_ca_file needs cert_file")
        _need(self.minimum_version in ("1.2", "1.3"), 'minimum_version must be "1.2" or "1.3"')
        _need(self.handshake_timeout_s > 0, "need handshake_timeout_s > 0")
        _need(self.handshakes_max > 0, "need handshakes_max > 0")
        _need(self.reload_interval_s > 0, "need reload_interval_s > 0")

    @property
    def enabled(self) -> bool:
        """Whether the port has TLS."""
        return bool(self.cert_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """[metrics] What /metrics shows to whom. The port is the one that clients reach."""

    access: str = "admin"  # admin: with an administrator's key; open: to everybody
    topics_max: int = 0  # the busiest topics have series of their own; the rest is "other"

    def __post_init__(self) -> None:
        _need(self.access in ("admin", "open"), 'access must be "admin" or "open"')


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTopicSettings:
    """How a topic of the service is made; whoever administers it may change it later."""

    partitions: int = 4
    retention_s: int = 7 * 86_400
    retention_bytes: int = 0  # per partition; 0: only age decides


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringSettings:
    """[measuring] What this server measures and writes to the topic __metrics."""

    enabled: bool = True
    step_s: float = 10.0  # a row of each thing measured so often; steps are aligned to the clock
    rows_max: int = 1_000  # partitions with rows of their own in a step; the others share one
    spool_bytes_max: int = 64 << 20  # kept on disk while the topic takes nothing; oldest go first
    partitions: int = 4  # of __metrics when it is made
    retention_s: int = 7 * 86_400  # of __metrics when it is made
    retention_bytes: int = 2 << 30  # of each of its partitions when it is made; 0: no limit

    def __post_init__(self) -> None:
        _need(1.0 <= self.step_s <= 3_600.0, "need 1 <= step_s <= 3600")
        _need(float(self.step_s).is_integer(), "need whole seconds in step_s")
        _need(0 < self.rows_max <= 10_000, "need 0 < rows_max <= 10000")
        _need(self.spool_bytes_max >= 1 << 20, "need spool_bytes_max >= 1 MiB")
        _need(self.partitions > 0, "need partitions > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteringSettings:
    """[metering] What tenants stored, counted from the log and written to the topic __usage."""

    enabled: bool = True
    interval_s: float = 30.0  # between two events of a minute that goes on
    partitions: int = 4  # of __usage when it is made
    retention_s: int = 40 * 86_400  # of __usage when it is made: a month can be billed anew

    def __post_init__(self) -> None:
        _need(0.0 < self.interval_s <= 3_600.0, "need 0 < interval_s <= 3600")
        _need(self.partitions > 0, "need partitions > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLimits:
    """[auth] Who may call."""

    clock_skew_max_s: int = 900  # the Go and Python clients never correct their clock
    anonymous: bool = False  # True: unsigned Guest requests become the guest principal
    denial_log_per_s_max: int = 20  # audit lines; what is left out is counted

    def __post_init__(self) -> None:
        _need(self.clock_skew_max_s > 0, "need clock_skew_max_s > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    """[message] Bounds of puts and gets."""

    block_bytes_max: int = 20 << 20  # one compressed block
    block_messages_max: int = 100_000  # messageNumber of one block
    get_messages_max: int = 20_000  # newer Go clients ask for so many
    get_bytes_max: int = 10 << 20  # of one reply, unless its first block is larger
    get_hold_s: float = 0.5  # an empty getMessage waits so long for new messages
    get_holds_max: int = 10_000  # getMessage calls held at once
    preview_messages_max: int = 20

    def __post_init__(self) -> None:
        _need(0 < self.block_bytes_max, "need block_bytes_max > 0")
        _need(0 < self.block_messages_max, "need block_messages_max > 0")
        _need(0 < self.get_messages_max, "need get_messages_max > 0")
        _need(0 < self.get_bytes_max, "need get_bytes_max > 0")
        _need(0 <= self.get_hold_s <= 4, "need get_hold_s <= 4: clients time out after 5 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """[topic] Bounds and defaults of topics."""

    # Source: docs/protocol/administration.md#topic-attributes.
    partitions_default: int = 8
    partitions_max: int = 256
    retention_default_s: int = 86_400
    retention_min_s: int = 3_600
    retention_max_s: int = 365 * 86_400
    attributes_bytes_max: int = 64 << 10
    topics_max: int = 100_000  # whole server
    change_partition_interval_s: float = 5.0  # between two changes of a partition count
    shrink_force_s: float = 86_400.0  # a shrink ends after so long even if a group never drains

    def __post_init__(self) -> None:
        _need(0 < self.partitions_default <= self.partitions_max, "need 0 < default <= max")
        _need(self.retention_min_s <= self.retention_default_s <= self.retention_max_s, "retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """[group] Bounds of consumer groups."""

    # Source: docs/protocol/consumers.md#leases.
    lease_s: float = 30.0  # clients renew every 7 s
    workers_max: int = 1_000  # per group and topic
    groups_max: int = 1_000  # per topic

    def __post_init__(self) -> None:
        _need(self.lease_s > 0, "need lease_s > 0")
        _need(self.workers_max > 0, "need workers_max > 0")
        _need(self.groups_max > 0, "need groups_max > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """[quota] Default quotas."""

    # Source of the limits of users and topics: docs/protocol/administration.md#quotas.
    hold_s: float = 3.0  # a request over its rate waits at most so long
    held_bytes_max: int = 64 << 20  # request bytes waiting for rate, whole server
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
    organisation_partitions: int = 10_000  # until an admin approves more

    def __post_init__(self) -> None:
        _need(0 <= self.hold_s <= 4, "need hold_s <= 4: clients time out after 5 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaApprovalLimits:
    """[quota_approval] Which requests for partitions are decided without a person."""

    capacity_partitions: int = 0  # of the whole cluster; 0: not told, a person decides
    capacity_bytes_per_s: int = 0  # put to the whole cluster at its peak; 0: not told
    fill_max: float = 0.8  # share of the capacity that is given away without a person
    partition_bytes_per_s: int = 5_000_000  # that a partition is planned for, reserve included
    reserve: float = 0.5  # of the expected traffic on top of it
    floor_partitions: int = 8  # so many need no history, while there is capacity
    horizon_days: int = 30  # a grant is to be enough for so long
    history_days_min: int = 14  # two weeks tell a weekly season; less is for a person
    projection_age_max_days: int = 3  # an older projection is for a person
    spreads: float = 2.0  # of the days around their trend, added to what is expected
    slack: float = 1.5  # up to so many times the need is granted, since people round up
    exaggeration: float = 3.0  # asked for more than so many times the need: rejected
    growth_max: float = 4.0  # traffic that is to grow by more within the horizon: for a person

    def __post_init__(self) -> None:
        _need(0 < self.fill_max <= 1, "need 0 < fill_max <= 1")
        _need(self.partition_bytes_per_s > 0, "need partition_bytes_per_s > 0")
        _need(self.horizon_days > 0, "need horizon_days > 0")
        _need(self.history_days_min > 0, "need history_days_min > 0")
        _need(self.projection_age_max_days > 0, "need projection_age_max_days > 0")
        _need(1 <= self.slack <= self.exaggeration, "need 1 <= slack <= exaggeration")
        _need(self.growth_max >= 1, "need growth_max >= 1")
        room = self.capacity_partitions * self.fill_max
        told = self.capacity_partitions > 0
        _need(not told or self.floor_partitions <= room, "need floor_partitions <= the capacity")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """[cluster] Several servers over shared storage; used with a zookeeper:// meta store only."""

    name: str = ""  # of this server, the same after a restart; empty: the one in its DATA
    key_file: str = ""  # 32 bytes in base64, the same on every server; empty: DATA/server.key
    virtual_nodes: int = 128  # of a server on the ring while no weights are set
    stable_after_s: float = 10.0  # a server that joins gets partitions when it lasted so long
    restart_s: float = 20.0  # partitions stay reserved so long for an announced restart
    probe_interval_s: float = 0.25  # between two looks whether a server's port refuses
    probe_confirm_s: float = 0.2  # a refusal counts when it is seen again after so long
    handover_s: float = 2.0  # a new owner waits so long for the former one to seal
    moves_at_once: int = 64  # planned moves under way, whole cluster
    peer_connections_max: int = 64  # to one other server
    peer_timeout_s: float = 10.0  # of one call to another server
    stop_s: float = 15.0  # from SIGTERM to the exit; half of it for sealing. Below restart_s

    def __post_init__(self) -> None:
        _need(self.virtual_nodes > 0, "need virtual_nodes > 0")
        _need(self.probe_interval_s > 0, "need probe_interval_s > 0")
        _need(self.moves_at_once > 0, "need moves_at_once > 0")
        _need(self.peer_connections_max > 0, "need peer_connections_max > 0")
        _need(self.peer_timeout_s > 0, "need peer_timeout_s > 0")
        _need(5.0 <= self.stop_s < self.restart_s, "need 5 <= stop_s < restart_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmLimits:
    """[jvm] The Java virtual machine in the process, for hdfs:// and hbase:// storage."""

    jars: str = ""  # folder with the client jars; empty: where talos backend fetch puts them
    heap_mb: int = 256  # its largest heap

    def __post_init__(self) -> None:
        _need(self.heap_mb >= 64, "need heap_mb >= 64")


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsLimits:
    """[hdfs] How the log is kept in HDFS."""

    conf_dir: str = ""  # core-site.xml and hdfs-site.xml; empty: HADOOP_CONF_DIR
    replication: int = 3
    replicas_min: int = 1  # DataNodes a commit must reach; on fewer nothing is acknowledged
    block_bytes: int = 256 << 20  # [log] segment_bytes_max + the largest group + 1 MiB at least
    threads: int = 8  # commits under way at once; up to four times as many while HDFS is slow
    commit_timeout_s: float = 10.0  # a commit without an answer for so long ends its file
    datanode_timeout_s: float = 10.0  # after it and 5 s per replica the client gives a DataNode up
    call_timeout_s: float = 15.0  # of one call to the NameNode
    kerberos_principal: str = ""  # with kerberos_keytab; empty: no login
    kerberos_keytab: str = ""

    def __post_init__(self) -> None:
        _need(0 < self.replicas_min <= self.replication, "need 0 < replicas_min <= replication")
        _need(self.block_bytes >= 1 << 20, "need block_bytes >= 1 MiB")
        _need(self.block_bytes % 4096 == 0, "need block_bytes to be a multiple of 4096")
        _need(self.threads > 0, "need threads > 0")
        timeouts_s = (self.commit_timeout_s, self.datanode_timeout_s, self.call_timeout_s)
        _need(min(timeouts_s) > 0, "need commit_, datanode_ and call_timeout_s > 0")
        _need(
            bool(self.kerberos_principal) == bool(self.kerberos_keytab),
            "need kerberos_principal and kerberos_keytab, or neither",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperLimits:
    """[zookeeper] The coordination service."""

    session_s: float = 6.0  # a server that is silent for so long has lost its partitions
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 10.0
    auth: str = ""  # SCHEME:CREDENTIAL, such as digest:user:password; empty: none
    tombstone_s: float = 86_400.0  # a removed record keeps its version for so long

    def __post_init__(self) -> None:
        _need(self.session_s > 0, "need session_s > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HbaseLimits:
    """[hbase] Where consumer groups and tables are kept."""

    conf_dir: str = ""  # hbase-site.xml; empty: HBASE_CONF_DIR, else only the URL counts
    threads: int = 8  # calls under way at once
    connect_timeout_s: float = 30.0  # at start, until the namespace is there
    call_timeout_s: float = 10.0  # of one call, with all its repeats

    def __post_init__(self) -> None:
        _need(self.threads > 0, "need threads > 0")
        _need(self.call_timeout_s >= 1, "need call_timeout_s >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsLimits:
    """[sds] Bounds of structured tables and their streams."""

    tables_max: int = 10_000  # whole server
    user_tables: int = 1_000  # of one owner
    shards_max: int = 256  # of one table
    attributes_max: int = 512  # of one table's schema
    indexes_max: int = 16  # of one table
    streams_max: int = 8  # of one table
    schema_bytes_max: int = 64 << 10  # of one table's record
    key_bytes_max: int = 1 << 10  # of a record's full key in its stored form
    record_bytes_max: int = 256 << 10  # of a record's cells in their stored form
    batch_items_max: int = 1_000
    batch_bytes_max: int = 4 << 20  # of records that one batch reads; items beyond it fail
    scan_records_max: int = 1_000  # of one page; a larger limit gives a shorter page
    scan_rows_max: int = 10_000  # read for one page, matching or not
    scan_bytes_max: int = 256 << 10  # of one page's records, unless its first one is larger
    scan_writes_max: int = 1_000  # records that one scan call deletes or updates
    condition_bytes_max: int = 8 << 10  # of a scan's condition
    read_units_per_s: int = 40_000  # default of a table
    write_units_per_s: int = 20_000  # default of a table
    hold_s: float = 3.0  # maximum throttling of a call over its table's rate
    when_full: str = "refuse"  # or gap: default for a stream whose topic rejects puts for long
    group_rows_max: int = 512  # rows that one shard commits together
    group_bytes_max: int = 4 << 20  # of cells that one shard commits together
    waiting_max: int = 10_000  # mutations of one shard that wait while a group is being written
    pending_entries_max: int = 100_000  # of one shard: not published, or not cleared
    pending_bytes_max: int = 64 << 20  # of one shard
    server_pending_entries_max: int = 500_000  # of all shards of a server, approximately
    server_pending_bytes_max: int = 512 << 20  # of all shards of a server, approximately
    refused_max_s: float = 30.0  # a stream of a table with when_full = gap stops after it
    write_deadline_s: float = 10.0  # of one group's write; its outcome is unknown after it
    settle_s: float = 30.0  # no marks for this long after a shard failed over to another server
    opened_scan_interval_s: float = 5.0  # between scans for pending cells during settle_s
    pending_scan_interval_s: float = 60.0  # between scans for pending cells later
    idle_close_s: float = 600.0  # a shard without streams and calls closes after it
    sweep_interval_s: float = 1.0  # between two steps that remove expired rows and old tombstones
    sweep_rows_max: int = 1_000  # rows that one step reads
    sweep_pause_s: float = 3_600.0  # between two passes over the same table
    tombstone_s: float = 7 * 86_400.0  # a removed row keeps its timestamp for this long

    def __post_init__(self) -> None:
        _need(0 < self.shards_max <= 65_536, "need 0 < shards_max <= 65536")
        _need(0 < self.key_bytes_max <= 1 << 10, "need key_bytes_max <= 1 KiB")
        _need(self.key_bytes_max <= self.record_bytes_max, "need key_ <= record_bytes_max")
        _need(self.record_bytes_max <= 1 << 20, "need record_bytes_max <= 1 MiB")
        _need(self.record_bytes_max <= self.group_bytes_max, "need record_ <= group_bytes_max")
        _need(self.record_bytes_max <= self.pending_bytes_max, "need record_ <= pending_bytes_max")
        _need(
            self.pending_entries_max <= self.server_pending_entries_max
            and self.pending_bytes_max <= self.server_pending_bytes_max,
            "need pending_ <= server_pending_entries_max, _bytes_max",
        )
        _need(self.record_bytes_max <= self.batch_bytes_max, "need record_ <= batch_bytes_max")
        counts = (self.batch_items_max, self.scan_records_max, self.scan_rows_max)
        _need(min(counts) > 0, "need batch_items_max, scan_records_max, scan_rows_max > 0")
        _need(min(self.read_units_per_s, self.write_units_per_s) > 0, "need units_per_s > 0")
        _need(0 <= self.hold_s <= 4, "need hold_s <= 4: clients time out after 10 s at most")
        _need(self.when_full in ("refuse", "gap"), 'when_full must be "refuse" or "gap"')
        _need(0 < self.group_rows_max <= 1_000, "need 0 < group_rows_max <= 1000")
        _need(min(self.waiting_max, self.pending_entries_max) > 0, "need waiting_, pending_ > 0")
        scans = (self.opened_scan_interval_s, self.pending_scan_interval_s)
        _need(min(*scans, self.sweep_interval_s) > 0, "need intervals > 0")
        _need(self.write_deadline_s <= self.settle_s, "need write_deadline_s <= settle_s")
        _need(self.tombstone_s >= 86_400, "need tombstone_s of a day at least")
