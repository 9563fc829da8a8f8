"""Names and help texts of all metrics; docs/operating/monitoring.md explains their use."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric

from opentalos import __version__
from opentalos.broker.figures.current import figures_of
from opentalos.broker.figures.values import ClusterFigures, Figures
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.metrics.lag_series import GroupOfTopic, LagSeries
from opentalos.gateway.metrics.sources import QUOTA_ERRORS, ProcessFigures, Sources
from opentalos.gateway.metrics.topic_series import TopicSeries
from opentalos.model.histogram import Histogram

PREFIX = "opentalos_"


class ServerCollector:
    """Reads the server's counters at each scrape."""

    def __init__(self, sources: Sources, topics_max: int, groups_max: int) -> None:
        self._sources = sources
        self._topics = TopicSeries(topics_max) if topics_max else None
        self._lags = LagSeries(groups_max)

    def collect(self) -> Iterator[Metric]:
        """Every family once."""
        sources, figures = self._sources, figures_of(self._sources.broker)
        yield InfoMetricFamily(f"{PREFIX}build", "Version of the server.", {"version": __version__})
        yield from _port(sources)
        yield from _calls(sources)
        yield from _sds_calls(sources)
        yield from _rest_calls(sources)
        yield from _kafka(sources.kafka)
        yield from _messages(sources, figures)
        yield from _log(figures)
        yield from _log_now(figures)
        yield from _journal(figures)
        yield from _metering(figures)
        yield from _groups(figures)
        yield from _lags(self._lags, figures)
        yield from _tables(figures)
        yield from _cluster(figures)
        yield from _process(sources.process())
        if self._topics is not None:
            self._topics.update(figures.log_now.traffic_by_topic())
            yield from _topics(self._topics, figures.topic_names)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _histogram(name: str, text: str, found: Histogram) -> Metric:
    bounds = [*map(str, found.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(found.counts), strict=True))
    return HistogramMetricFamily(PREFIX + name, text, buckets=buckets, sum_value=found.sum)


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _port(sources: Sources) -> Iterator[Metric]:
    http = sources.http
    yield _gauge("connections", "Open connections.", http.connections)
    yield _counter("connections_accepted", "Connections accepted.", http.accepted)
    yield _counter(
        "connections_cut", "Connections closed because the client was too slow.", http.cut
    )
    yield _counter("requests_refused", "Requests rejected before they were complete.", http.refused)
    text = "Requests that waited for a turn of the event loop."
    yield _counter("requests_deferred", text, http.turns.deferred)
    yield _gauge("request_body_bytes", "Bytes of request bodies in memory.", http.body_bytes)
    if http.tls is not None:
        made = http.tls.counters
        ends = {"done": made.done, "failed": made.failed, "refused": made.refused}
        yield _labelled("tls_handshakes", "TLS handshakes by outcome.", "outcome", ends)


def _calls(sources: Sources) -> Iterator[Metric]:
    thrift, failures = sources.thrift, sources.http.traffic.failures
    calls = {"put": thrift.puts, "get": thrift.gets, "other": thrift.calls}
    yield _labelled("calls", "Talos calls by kind.", "kind", calls)
    text = "Failed requests of all protocols by error."
    yield _labelled("failures", text, "error", failures)
    yield _histogram(
        "put_duration_seconds",
        "Latency of putMessage from request to reply.",
        thrift.put_s.coarse(),
    )
    text = "Latency of getMessage from request to reply, including waits for new messages."
    yield _histogram("get_duration_seconds", text, thrift.get_s.coarse())
    if sources.forwarding is not None:
        counts = sources.forwarding.counters()
        for name, text in (
            ("requests", "Requests forwarded to the owning server."),
            ("failures", "Forwarded requests without a reply."),
            ("received", "Requests forwarded by other servers."),
            ("refused_proofs", "Requests with an invalid proof that another server sent them."),
        ):
            yield _counter(f"forwarded_{name}", text, counts[name])
        text = "Bytes of forwarded requests and their replies."
        passed = {"out": counts["bytes_out"], "in": counts["bytes_in"]}
        yield _labelled("forwarded_bytes", text, "direction", passed)


def _sds_calls(sources: Sources) -> Iterator[Metric]:
    sds = sources.sds
    yield _labelled("sds_calls", "Calls of the SDS protocol by method.", "rpc", sds.calls)
    text = "Latency of SDS get and scan from request to reply."
    yield _histogram("sds_read_duration_seconds", text, sds.read_s.coarse())
    text = "Latency of SDS put, increment, remove and batch from request to reply."
    yield _histogram("sds_write_duration_seconds", text, sds.write_s.coarse())


def _rest_calls(sources: Sources) -> Iterator[Metric]:
    text = "Latency of REST calls that read, from request to reply, without those that wait."
    yield _histogram("rest_read_duration_seconds", text, sources.rest.read_s.coarse())
    text = "Latency of REST calls that change something, from request to reply."
    yield _histogram("rest_write_duration_seconds", text, sources.rest.write_s.coarse())


def _kafka(port: KafkaPort) -> Iterator[Metric]:
    yield _gauge("kafka_connections", "Open connections of clients of Kafka.", port.connections)
    for name, text, value in (
        ("accepted", "Connections of clients of Kafka accepted.", port.accepted),
        ("cut", "Connections of clients of Kafka closed because they were too slow.", port.cut),
        ("refused", "Connections of clients of Kafka closed for what they sent, or too many.",
         port.refused),
    ):  # fmt: skip
        yield _counter(f"kafka_connections_{name}", text, value)
    text = "Requests of clients of Kafka by kind."
    yield _labelled("kafka_requests", text, "request", port.requests_by_api)
    text = "Failed requests of clients of Kafka by error."
    yield _labelled("kafka_failures", text, "error", port.failures_by_error)
    text = "Bytes of requests of clients of Kafka in memory."
    yield _gauge("kafka_request_bytes", text, port.memory.bytes)
    text = "Bytes of answers that clients of Kafka do not read."
    yield _gauge("kafka_unread_bytes", text, port.unread_bytes)


def _long_work(figures: Figures) -> Iterator[Metric]:
    done = figures.long_work
    yield _counter("decoded_bytes", "Bytes decompressed for readers.", figures.decoded_bytes)
    text = "Decompressed bytes kept for the next read."
    yield _gauge("decoded_bytes_kept", text, figures.decoded_bytes_kept)
    yield _counter("long_work_turns", "Calls that took turns to decode or encode.", done.turns)
    yield _counter("long_work_pieces", "Pieces of such work.", done.pauses)
    yield _counter("long_work_off_loop", "Calls that ran on threads.", done.off_loop)
    text = "Calls rejected because too many of their caller's waited for a turn."
    yield _counter("long_work_rejections", text, done.rejected)
    yield _gauge("long_work_waiting", "Calls that wait for a turn.", figures.long_work_waiting)


def _messages(sources: Sources, figures: Figures) -> Iterator[Metric]:
    counted, log = figures.messages, figures.log
    yield _counter("puts", "Admitted puts of all protocols.", counted.puts)
    yield _counter("gets", "Admitted gets of all protocols.", counted.gets)
    yield _counter("messages_stored", "Messages stored.", log.messages)
    yield _counter("messages_read", "Messages delivered to consumers.", counted.get_messages)
    yield _counter("put_bytes", "Payload bytes of admitted puts.", counted.put_bytes)
    yield _counter("get_bytes", "Payload bytes delivered to consumers.", counted.get_bytes)
    held = {"put": counted.puts_throttled, "get": counted.gets_throttled}
    yield _labelled("quota_throttled", "Calls delayed by a rate quota.", "kind", held)
    yield _labelled("quota_holds", "Former name of quota_throttled.", "kind", held)
    failures = sources.http.traffic.failures
    refused = {error: failures[error] for error in QUOTA_ERRORS}
    yield _labelled("quota_rejections", "Calls rejected by a quota, by error.", "error", refused)
    text = "Bytes of puts that a rate quota delays."
    yield _gauge("quota_throttled_bytes", text, figures.held.put_bytes)
    yield _gauge(
        "quota_held_bytes", "Former name of quota_throttled_bytes.", figures.held.put_bytes
    )
    yield _gauge("gets_waiting", "Gets that wait for new messages.", figures.held.gets)
    yield from _long_work(figures)
    text = "Partition requests decided automatically, by outcome."
    yield _labelled("quota_decisions", text, "outcome", figures.quota_decisions)
    yield _counter(
        "access_denials", "Calls rejected because of a missing permission.", figures.denials
    )
    audit = sources.broker.context.audit
    ignored = sources.broker.catalogs.principals.seal.refused
    yield _gauge("principals_refused", "Records of principals without a MAC.", len(ignored))
    yield _counter("audit_events", "Audit events recorded.", audit.recorded)
    yield _counter(
        "audit_events_lost", "Audit events that neither __audit nor the disk took.", audit.lost()
    )
    yield _gauge("topics", "Topics.", figures.topics)
    text = "Topics of which one partition took most messages of the last ten minutes."
    yield _gauge("hot_partitions", text, figures.hot_partitions)
    text = "Stored topics that the catalogue does not know, or knows with fewer partitions."
    yield _gauge("unknown_topics", text, figures.unknown_topics)
    text = "Files of deleted topics that late writes left, removed."
    yield _counter("topic_leftovers_removed", text, figures.leftovers_removed)
    yield _gauge("topic_partitions", "Partitions of all topics.", figures.partitions)


def _log(figures: Figures) -> Iterator[Metric]:
    log = figures.log
    yield _counter("log_commits", "Group commits.", log.commits)
    yield _counter("log_blocks", "Committed message blocks.", log.blocks)
    yield _counter("log_bytes", "Bytes written to logs.", log.bytes)
    yield _histogram("log_group_blocks", "Blocks per group commit.", log.group_blocks)
    text = "Latency of commits, with a resolution of a millisecond."
    yield _histogram("log_commit_duration_seconds", text, log.commit_s)
    for name, text, value in (
        ("commit_failures", "Failed commits.", log.commit_failures),
        ("isolated", "Blocks rejected because their commits fail also alone.", log.isolated),
        ("hung_commits", "Commits given up because they hung.", log.hung_commits),
        ("overdue", "Puts answered after commit_deadline_s without the storage.", log.overdue),
        ("openings", "Partitions opened for writing.", log.openings),
        ("recoveries", "Partitions reopened after a failure.", log.reopens),
        ("rolls", "Segments rolled because of size, age or replicas.", log.rolls),
        ("thin_rolls", "Rolls to a new file because it gets more replicas.", log.thin_rolls),
        ("seals", "Partitions sealed.", log.seals),
        ("stalls", "Commits so slow that they occupied a commit lane.", log.stalls),
        ("duplicates", "Duplicate blocks, not stored again.", log.duplicates),
        ("corruptions", "Corruptions found in logs.", log.corrupt),
        ("truncations", "Flushed logs that lost their end in a power failure.", log.truncated),
        ("tail_cuts", "Incomplete last groups that crashes left, cut off.",
         log.tails_cut + log.journal.tails_cut),
        ("set_aside", "Files set aside whose messages nothing proves to be acknowledged.",
         log.set_aside),
        ("end_marks", "Witnesses written behind the last commit of idle partitions.",
         log.end_marks),
        ("scrubbed_bytes", "Bytes of sealed segments read to verify them.", log.scrubbed_bytes),
        ("scrubbed_segments", "Sealed segments verified.", log.scrubbed_segments),
        ("scrub_passes", "Passes over all sealed segments.", log.scrub_passes),
        ("segments_dropped", "Segments deleted by retention.", log.segments_dropped),
        ("merges", "Runs of small segments merged into one.", log.merges),
        ("segments_merged", "Segments that were merged.", log.segments_merged),
        ("merge_failures", "Merges that failed; nothing was changed.", log.merge_failures),
        ("retention_standing", "Retention passes skipped because the clock is not trusted.",
         log.retention_standing),
        ("share_refusals", "Puts rejected because their tenant or topic holds its share.",
         log.refused_share),
        ("full_refusals", "Puts rejected because the storage is full.", log.refused_full),
        ("manifest_full_refusals", "Openings rejected because a partition has too many segments.",
         log.refused_manifest_full),
        ("waiter_failures", "Defects: put completions that raised.", log.waiter_failures),
    ):  # fmt: skip
        yield _counter(f"log_{name}", text, value)


def _journal(figures: Figures) -> Iterator[Metric]:
    counted, now = figures.log.journal, figures.log_now.journal
    text = "Groups per commit of a journal."
    yield _histogram("journal_frame_groups", text, counted.frame_groups)
    text = "Latency of commits of journals, with a resolution of a millisecond."
    yield _histogram("journal_commit_duration_seconds", text, counted.commit_s)
    for name, text, value in (
        ("frames", "Commits of journals.", counted.frames),
        ("bytes", "Bytes written to journals.", counted.bytes),
        ("write_outs", "Segments written out behind a journal.", counted.write_outs),
        ("given_up", "Journals given up after an error or a fence.", counted.given_up),
        ("recoveries", "Journals fenced and read to recover their partitions.",
         counted.recoveries),
        ("unused_recovered", "Unused partitions recovered so that a former journal can end.",
         counted.unused_recovered),
        ("unused_failures", "Attempts to recover unused partitions that failed.",
         counted.unused_failures),
    ):  # fmt: skip
        yield _counter(f"journal_{name}", text, value)
    yield _gauge("journal_files", "Files of this server's journals.", now.files)
    yield _gauge("journal_stored_bytes", "Bytes in these files.", now.stored_bytes)
    yield _gauge(
        "journal_full", "1 while a journal is not trimmed as fast as it grows.", int(now.full)
    )
    text = "Bytes in memory that only a journal has on storage."
    yield _gauge("journal_unwritten_bytes", text, now.unwritten_bytes)
    yield _gauge("journal_recovered", "Journals that are being recovered.", now.recovered)
    text = "Unused partitions for which a former journal is kept, until they are recovered."
    yield _gauge("journal_unrecovered_partitions", text, now.unrecovered)
    text = "Bytes in memory of journals that are being recovered."
    yield _gauge("journal_recovered_bytes", text, now.recovered_bytes)


def _log_now(figures: Figures) -> Iterator[Metric]:
    log, now = figures.log, figures.log_now
    reads = {"hit": log.cache_hits, "miss": log.cache_misses}
    yield _labelled(
        "tail_cache_reads", "Reads by whether the tail cache had the blocks.", "result", reads
    )
    yield _gauge("tail_cache_bytes", "Bytes in the tail cache.", now.cache_bytes)
    yield _gauge("tail_cache_max_bytes", "Maximum bytes in the tail cache.", now.cache_bytes_max)
    yield _gauge("log_damaged_segments", "Sealed segments found damaged.", now.damaged_segments)
    text = "Partitions that refuse puts, since an opening found their logs damaged."
    yield _gauge("log_damaged_partitions", text, now.damaged_partitions)
    yield _gauge(
        "clock_disagreement_seconds",
        "How far the wall clock is ahead of the time this server knows; negative: behind.",
        now.clock_disagreement_s,
    )
    yield _gauge(
        "retention_paused",
        "1 while nothing is deleted by age, because the clock is in doubt.",
        int(bool(now.clock_doubt)),
    )
    yield _gauge("log_pending_bytes", "Bytes waiting for commit.", now.pending_bytes)
    yield _gauge("log_lanes", "Active commit lanes.", now.lanes)
    yield _gauge(
        "log_lanes_stalled", "Commit lanes occupied by a stalled commit.", now.lanes_stalled
    )
    yield _gauge("log_partitions", "Partitions in memory.", now.partitions)
    yield _gauge("log_open_partitions", "Partitions open for writing.", now.open_partitions)
    yield _gauge(
        "log_open_partitions_max",
        "Open partitions above which idle ones are sealed.",
        now.open_partitions_max,
    )
    yield _gauge("storage_free_bytes", "Free space of the storage.", now.space_left_bytes)
    yield _gauge("storage_full", "1 while puts are rejected because the storage is full.", now.full)


def _metering(figures: Figures) -> Iterator[Metric]:
    metering = figures.metering
    yield _counter("metering_events", "Usage events stored in __usage.", metering.events)
    text = "Metering passes that could not write to __usage."
    yield _counter("metering_failures", text, metering.failures)
    text = "Usage events of deleted topics that were dropped for lack of memory."
    yield _counter("metering_lost_events", text, metering.lost_events)
    text = "Payload bytes of reads that were not metered, for lack of memory."
    yield _counter("metering_egress_lost_bytes", text, metering.egress_lost_bytes)
    text = "Reports of how long messages are kept that could not be made; they are made again."
    yield _counter("metering_kept_failures", text, metering.kept_failures)
    text = "Partitions whose usage events are late."
    yield _gauge("metering_partitions_late", text, metering.partitions_unmetered)
    text = "Age of the oldest late minute without a usage event; 0: none."
    yield _gauge("metering_oldest_seconds", text, metering.oldest_unmetered_s)


def _groups(figures: Figures) -> Iterator[Metric]:
    groups, now, positions = figures.groups, figures.groups_now, figures.positions
    yield _gauge("groups", "Consumer groups that this server coordinates.", now.groups)
    yield _gauge("group_workers", "Workers with a live lease.", now.workers)
    yield _gauge("group_leases", "Partitions held by a live lease.", now.leases)
    text = "Partitions assigned to another worker."
    yield _counter("group_rebalances", text, groups.grants)
    yield _counter("group_commits", "Committed checkpoints.", groups.commits)
    text = "Rejected commits: the worker does not hold the partition's lease."
    yield _counter("group_commits_refused", text, groups.commits_refused)
    text = "Committed checkpoints below the previous one."
    yield _counter("group_commits_backward", text, groups.commits_backward)
    yield _counter("group_resets", "Checkpoints reset by an administrator.", groups.resets)
    text = "Members of groups of Kafka clients refused because of the bytes that members take."
    yield _counter("kafka_members_refused", text, figures.kafka_members_refused)
    events = {"expired": positions.positions_expired, "truncated": positions.logs_truncated}
    text = "Checkpoints outside the log because of retention or truncation."
    yield _labelled("group_position_events", text, "event", events)


def _lags(series: LagSeries, figures: Figures) -> Iterator[Metric]:
    names = figures.topic_names
    lags = {
        GroupOfTopic(names[place.topic_uuid], place.group): lag
        for place, lag in figures.group_lags.items()
        if place.topic_uuid in names
    }
    text = "Messages behind of the worst consumer group on a topic that this server coordinates."
    yield _gauge("group_lag_max_messages", text, max(lags.values(), default=0))
    text = "Messages behind by topic and consumer group; groups beyond groups_max are together."
    family = GaugeMetricFamily(f"{PREFIX}group_lag_messages", text, labels=["topic", "group"])
    for place, lag in series.rows(lags):
        family.add_metric(place, lag)
    yield family


def _tables(figures: Figures) -> Iterator[Metric]:
    shards, rates = figures.shards, figures.table_rates
    yield _gauge("tables", "Structured tables.", figures.tables)
    yield _gauge("table_shards", "Open table shards of this server.", shards.shards)
    yield _gauge("table_slices", "Former name of table_shards.", shards.shards)
    yield _counter("table_mutations", "Applied row mutations.", shards.mutations)
    yield _counter("table_groups", "Committed groups of mutations.", shards.groups)
    units = {"read": rates.read_units, "write": rates.write_units}
    yield _labelled("table_units", "Capacity units used by table calls.", "kind", units)
    yield _counter("table_throttled", "Calls delayed by their table's rate.", rates.held)
    yield _counter("table_holds", "Former name of table_throttled.", rates.held)
    yield _counter("table_rejections", "Calls rejected by their table's rate.", rates.rejected)
    spaces = figures.table_spaces
    text = "Bytes of tables with a quota that this server writes."
    yield _gauge("table_space_bytes", text, spaces.bytes)
    text = "Tables that use at least 90 % of their quota."
    yield _gauge("tables_nearly_full", text, spaces.nearly_full)
    yield _counter("table_space_refusals", "Mutations rejected by a table's quota.", spaces.refused)
    text = "Unpublished messages of streams."
    yield _gauge("stream_pending_entries", text, shards.pending_entries)
    yield _gauge(
        "stream_pending_bytes", "Bytes of unpublished messages of streams.", shards.pending_bytes
    )
    text = "Age of the oldest unpublished message; 0: none."
    yield _gauge("stream_pending_oldest_seconds", text, shards.oldest_pending_ms / 1_000)
    yield _counter("stream_published", "Published changes.", shards.published)
    yield _counter("stream_resent", "Changes that were published again.", shards.resent)
    text = "Publications rejected because a newer owner of the shard exists."
    yield _counter("stream_fenced", text, shards.fenced)
    yield _counter("stream_gaps", "Streams stopped by this server.", shards.gaps)
    text = "Mutations rejected because too many changes are unpublished."
    yield _counter("stream_full_refusals", text, shards.refused_full)
    text = "Stopped streams with missing changes, of all tables."
    yield _gauge("streams_stopped", text, figures.stopped_streams)


def _cluster(figures: Figures) -> Iterator[Metric]:
    cluster = figures.cluster
    yield _gauge("cluster_enabled", "1 for a cluster member.", cluster is not None)
    if cluster is None:
        return
    yield _gauge(
        "cluster_member", "1 while this server's ZooKeeper session is valid.", cluster.member
    )
    yield _gauge("cluster_leading", "1 on the leader, which assigns partitions.", cluster.leading)
    yield _gauge("cluster_leader_known", "1 while a leader is known.", cluster.leader_known)
    yield _gauge("cluster_servers", "Registered servers.", cluster.servers)
    yield from _placed(cluster, figures.server)


def _placed(cluster: ClusterFigures, server: str) -> Iterator[Metric]:
    placed, total = cluster.partitions, sum(cluster.partitions.values())
    yield _gauge("cluster_partitions", "Assigned partitions.", total)
    yield _gauge(
        "cluster_partitions_owned", "Partitions assigned to this server.", placed.get(server, 0)
    )
    yield _gauge("cluster_partitions_unassigned", "Partitions without a server.", placed.get("", 0))
    yield _gauge("cluster_partitions_moving", "Planned moves in progress.", cluster.moving)
    moves = {"planned": cluster.planned_moves, "takeover": cluster.takeovers}
    text = "Moves that this server decided as leader."
    yield _labelled("cluster_moves", text, "kind", moves)


def _process(process: ProcessFigures) -> Iterator[Metric]:
    text = "Total time that the event loop was blocked."
    yield _counter("loop_blocked_seconds", text, process.loop_blocked_s)
    text = "Longest time that the event loop was blocked."
    yield _gauge("loop_blocked_longest_seconds", text, process.loop_blocked_longest_s)
    text = "Longest time that the event loop was blocked in the last 60 to 70 s."
    yield _gauge("loop_blocked_recent_seconds", text, process.loop_blocked_recent_s)
    text = "threads that the system refused to start"
    yield _counter("thread_start_failures", text, process.thread_start_failures)
    text = "checks, one a second, that found no free descriptor"
    yield _counter("descriptors_exhausted", text, process.descriptors_exhausted)
    text = "Open files on HDFS with fewer DataNodes than [hdfs] replication."
    yield _gauge("hdfs_files_short", text, process.hdfs_files_short)
    text = "Incomplete transactions that crashes left in SQLite's logs, left out."
    yield _counter("wal_tail_cuts", text, process.wal_tail_cuts)
    if process.tls_expires_s:
        text = "Expiry of the certificate in use."
        yield _gauge("tls_certificate_expiry_timestamp_seconds", text, process.tls_expires_s)
    reloads = {"done": process.tls_reloads, "failed": process.tls_reload_failures}
    yield _labelled("tls_reloads", "Reloads of the files of [tls] by outcome.", "outcome", reloads)


def _topics(series: TopicSeries, names: Mapping[str, str]) -> Iterator[Metric]:
    rows = list(series.rows(names))
    for unit in ("messages", "bytes"):
        text = f"{unit.capitalize()} stored (in) and read (out) by topic on this server."
        family = CounterMetricFamily(f"{PREFIX}topic_{unit}", text, labels=["topic", "direction"])
        for topic, counts in rows:
            for direction in ("in", "out"):
                family.add_metric([topic, direction], counts[f"{unit}_{direction}"])
        yield family
