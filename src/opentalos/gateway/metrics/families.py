"""Names, units and texts of every metric; docs/operating/monitoring.md says what they are for."""

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
from opentalos.broker.figures import ClusterFigures, Figures, figures_of
from opentalos.gateway.metrics.sources import ProcessFigures, Sources
from opentalos.gateway.metrics.topic_series import TopicSeries
from opentalos.model.histogram import Histogram

PREFIX = "opentalos_"
QUOTA_ERRORS = ("ThrottleRejected", "QuotaExceeded")


class ServerCollector:
    """Reads the server's counters at each scrape, so nothing is counted twice."""

    def __init__(self, sources: Sources, topics_max: int) -> None:
        self._sources = sources
        self._topics = TopicSeries(topics_max) if topics_max else None

    def collect(self) -> Iterator[Metric]:
        """Every family once."""
        sources, figures = self._sources, figures_of(self._sources.broker)
        yield InfoMetricFamily(f"{PREFIX}build", "Version of the server.", {"version": __version__})
        yield from _port(sources)
        yield from _calls(sources)
        yield from _sds_calls(sources)
        yield from _messages(sources, figures)
        yield from _log(figures)
        yield from _metering(figures)
        yield from _groups(figures)
        yield from _tables(figures)
        yield from _cluster(figures)
        yield from _process(sources.process())
        if self._topics is not None:
            self._topics.look(figures.log_now.traffic_by_topic())
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
    yield _counter("connections_cut", "Connections cut for a client that was slow.", http.cut)
    yield _counter("requests_refused", "Requests refused before they were whole.", http.refused)
    yield _gauge("request_body_bytes", "Bytes of request bodies in memory.", http.body_bytes)
    if http.tls is not None:
        made = http.tls.counters
        ends = {"done": made.done, "failed": made.failed, "refused": made.refused}
        yield _labelled("tls_handshakes", "TLS handshakes by how they ended.", "outcome", ends)


def _calls(sources: Sources) -> Iterator[Metric]:
    thrift, failures = sources.thrift, sources.http.traffic.failures
    calls = {"put": thrift.puts, "get": thrift.gets, "other": thrift.calls}
    yield _labelled("calls", "Talos calls by kind.", "kind", calls)
    text = "Requests answered with an error, over all protocols, by error."
    yield _labelled("failures", text, "error", failures)
    yield _histogram(
        "put_duration_seconds", "putMessage, from request to reply.", thrift.put_s.coarse()
    )
    text = "getMessage, from request to reply; waits at the end of a log included."
    yield _histogram("get_duration_seconds", text, thrift.get_s.coarse())
    if sources.forwarding is not None:
        counts = sources.forwarding.counters()
        for name, text in (
            ("requests", "Requests passed on to the server that can answer them."),
            ("failures", "Requests passed on and not answered."),
            ("received", "Requests that other servers passed on to this one."),
            ("refused_proofs", "Requests with a wrong proof of coming from another server."),
        ):
            yield _counter(f"forwarded_{name}", text, counts[name])
        text = "Bytes of bodies passed on, and of their replies."
        passed = {"out": counts["bytes_out"], "in": counts["bytes_in"]}
        yield _labelled("forwarded_bytes", text, "direction", passed)


def _sds_calls(sources: Sources) -> Iterator[Metric]:
    sds = sources.sds
    yield _labelled("sds_calls", "Calls of the SDS protocol by RPC.", "rpc", sds.calls)
    text = "get and scan of SDS, from request to reply."
    yield _histogram("sds_read_duration_seconds", text, sds.read_s.coarse())
    text = "put, increment, remove and batch of SDS, from request to reply."
    yield _histogram("sds_write_duration_seconds", text, sds.write_s.coarse())


def _messages(sources: Sources, figures: Figures) -> Iterator[Metric]:
    counted, log = figures.messages, figures.log
    yield _counter("puts", "Puts that were admitted, over all protocols.", counted.puts)
    yield _counter("gets", "Gets that were admitted, over all protocols.", counted.gets)
    yield _counter("messages_stored", "Messages stored.", log.messages)
    yield _counter("messages_read", "Messages given to consumers.", counted.get_messages)
    yield _counter("put_bytes", "Payload bytes of admitted puts.", counted.put_bytes)
    yield _counter("get_bytes", "Payload bytes given to consumers.", counted.get_bytes)
    held = {"put": counted.puts_held, "get": counted.gets_held}
    yield _labelled("quota_holds", "Calls that a rate quota held up.", "kind", held)
    failures = sources.http.traffic.failures
    refused = {error: failures[error] for error in QUOTA_ERRORS}
    yield _labelled("quota_rejections", "Calls refused by a quota, by error.", "error", refused)
    text = "Bytes of puts that wait for their rate."
    yield _gauge("quota_held_bytes", text, figures.held.put_bytes)
    yield _gauge("gets_waiting", "Gets that wait for messages.", figures.held.gets)
    text = "Requests for partitions that were decided at once, by outcome."
    yield _labelled("quota_decisions", text, "outcome", figures.quota_decisions)
    yield _counter("access_denials", "Calls refused for want of a permission.", figures.denials)
    yield _gauge("topics", "Topics.", figures.topics)
    yield _gauge("topic_partitions", "Partitions of all topics.", figures.partitions)


def _log(figures: Figures) -> Iterator[Metric]:
    log, now = figures.log, figures.log_now
    yield _counter("log_commits", "Groups made durable.", log.commits)
    yield _counter("log_blocks", "Message blocks made durable.", log.blocks)
    yield _counter("log_bytes", "Bytes written to logs.", log.bytes)
    yield _histogram("log_group_blocks", "Blocks of a group.", log.group_blocks)
    text = "Time of a commit, to a millisecond."
    yield _histogram("log_commit_duration_seconds", text, log.commit_s)
    for name, text, value in (
        ("commit_failures", "Commits that failed.", log.commit_failures),
        ("openings", "Partitions opened for writing.", log.openings),
        ("recoveries", "Partitions opened anew after a failure.", log.reopens),
        ("rolls", "Segments ended because they were large or old.", log.rolls),
        ("seals", "Partitions sealed.", log.seals),
        ("stalls", "Commits so slow that they kept a lane for themselves.", log.stalls),
        ("duplicates", "Blocks that were stored before and not stored again.", log.duplicates),
        ("corruptions", "Damaged places found in logs.", log.corrupt),
        ("truncations", "Flushed logs found shorter after a power loss.", log.truncated),
        ("segments_dropped", "Segments deleted by retention.", log.segments_dropped),
        ("retention_standing", "Passes of retention without trust in the clock.",
         log.retention_standing),
        ("full_refusals", "Puts refused for want of space.", log.refused_full),
        ("waiter_failures", "Bugs: a put whose completion raised.", log.waiter_failures),
    ):  # fmt: skip
        yield _counter(f"log_{name}", text, value)
    reads = {"hit": log.cache_hits, "miss": log.cache_misses}
    yield _labelled("tail_cache_reads", "Reads by whether memory had them.", "result", reads)
    yield _gauge("tail_cache_bytes", "Bytes of recent blocks in memory.", now.cache_bytes)
    yield _gauge("tail_cache_max_bytes", "Bound of the tail cache.", now.cache_bytes_max)
    yield _gauge("log_pending_bytes", "Bytes that wait for their commit.", now.pending_bytes)
    yield _gauge("log_lanes", "Lanes that commit.", now.lanes)
    yield _gauge("log_lanes_stalled", "Lanes kept by one slow commit.", now.lanes_stalled)
    yield _gauge("log_partitions", "Partitions in memory.", now.partitions)
    yield _gauge("log_open_partitions", "Partitions open for writing.", now.open_partitions)
    yield _gauge("storage_free_bytes", "Free space of the storage.", now.space_left_bytes)
    yield _gauge("storage_full", "1 while puts are refused for want of space.", now.full)


def _metering(figures: Figures) -> Iterator[Metric]:
    metering = figures.metering
    yield _counter("metering_events", "Usage events stored in __usage.", metering.events)
    text = "Passes of metering that could not write to __usage."
    yield _counter("metering_failures", text, metering.failures)
    text = "Usage events of deleted topics for which there was no room."
    yield _counter("metering_lost_events", text, metering.lost_events)
    text = "Partitions with messages that no usage event tells of in time."
    yield _gauge("metering_partitions_late", text, metering.partitions_unmetered)
    text = "Since the end of the oldest minute that is not metered and late; 0: none is."
    yield _gauge("metering_oldest_seconds", text, metering.oldest_unmetered_s)


def _groups(figures: Figures) -> Iterator[Metric]:
    groups, now, positions = figures.groups, figures.groups_now, figures.positions
    yield _gauge("groups", "Consumer groups that this server coordinates.", now.groups)
    yield _gauge("group_workers", "Workers with a live lease.", now.workers)
    yield _gauge("group_leases", "Partitions held by a live lease.", now.leases)
    text = "Partitions that got another worker."
    yield _counter("group_rebalances", text, groups.grants)
    yield _counter("group_commits", "Checkpoints stored.", groups.commits)
    text = "Checkpoints refused: the worker does not hold the partition."
    yield _counter("group_commits_refused", text, groups.commits_refused)
    text = "Checkpoints stored that lie before the former one."
    yield _counter("group_commits_backward", text, groups.commits_backward)
    yield _counter("group_resets", "Checkpoints reset by an administrator.", groups.resets)
    events = {"expired": positions.positions_expired, "truncated": positions.logs_truncated}
    text = "Checkpoints found outside the log: retention or a truncated log passed them."
    yield _labelled("group_position_events", text, "event", events)


def _tables(figures: Figures) -> Iterator[Metric]:
    shards, rates = figures.shards, figures.table_rates
    yield _gauge("tables", "Structured tables.", figures.tables)
    yield _gauge("table_shards", "Shards of tables that this server has open.", shards.shards)
    yield _gauge("table_slices", "Former name of table_shards.", shards.shards)
    yield _counter("table_mutations", "Mutations of rows that were done.", shards.mutations)
    yield _counter("table_groups", "Groups of mutations made durable.", shards.groups)
    units = {"read": rates.read_units, "write": rates.write_units}
    yield _labelled("table_units", "Units that calls on tables took.", "kind", units)
    yield _counter("table_holds", "Calls that their table's rate held up.", rates.held)
    yield _counter("table_rejections", "Calls refused by their table's rate.", rates.rejected)
    spaces = figures.table_spaces
    text = "Bytes of the tables with a quota that this server writes to."
    yield _gauge("table_space_bytes", text, spaces.bytes)
    text = "Those of these tables that hold 90 % of their quota or more."
    yield _gauge("tables_nearly_full", text, spaces.nearly_full)
    yield _counter("table_space_refusals", "Mutations refused by a table's quota.", spaces.refused)
    text = "Messages of changes that their topics do not have yet."
    yield _gauge("stream_pending_entries", text, shards.pending_entries)
    yield _gauge("stream_pending_bytes", "Bytes of these messages.", shards.pending_bytes)
    text = "Age of the oldest of these messages; 0: there is none."
    yield _gauge("stream_pending_oldest_seconds", text, shards.oldest_pending_ms / 1_000)
    yield _counter("stream_published", "Changes that a topic took.", shards.published)
    yield _counter("stream_resent", "Changes that were sent again.", shards.resent)
    text = "Times that a topic knew of a later owner of a shard."
    yield _counter("stream_fenced", text, shards.fenced)
    yield _counter("stream_gaps", "Streams that this server stopped.", shards.gaps)
    text = "Mutations refused since too many changes wait for their topics."
    yield _counter("stream_full_refusals", text, shards.refused_full)
    text = "Streams that stand still and lack changes, of all tables."
    yield _gauge("streams_stopped", text, figures.stopped_streams)


def _cluster(figures: Figures) -> Iterator[Metric]:
    cluster = figures.cluster
    yield _gauge("cluster_enabled", "1 for a server of a cluster.", cluster is not None)
    if cluster is None:
        return
    yield _gauge("cluster_member", "1 while this server's session holds.", cluster.member)
    yield _gauge("cluster_leading", "1 on the server that places partitions.", cluster.leading)
    yield _gauge("cluster_leader_known", "1 while some server leads.", cluster.leader_known)
    yield _gauge("cluster_servers", "Servers that are registered.", cluster.servers)
    yield from _placed(cluster, figures.server)


def _placed(cluster: ClusterFigures, server: str) -> Iterator[Metric]:
    placed, total = cluster.partitions, sum(cluster.partitions.values())
    yield _gauge("cluster_partitions", "Partitions that are placed.", total)
    yield _gauge("cluster_partitions_owned", "Those of this server.", placed.get(server, 0))
    yield _gauge("cluster_partitions_unassigned", "Those of no server.", placed.get("", 0))
    yield _gauge("cluster_partitions_moving", "Planned moves under way.", cluster.moving)
    moves = {"planned": cluster.planned_moves, "takeover": cluster.takeovers}
    text = "Moves that this server decided as the leader."
    yield _labelled("cluster_moves", text, "kind", moves)


def _process(process: ProcessFigures) -> Iterator[Metric]:
    text = "Time that the event loop was held up by one turn."
    yield _counter("loop_blocked_seconds", text, process.loop_blocked_s)
    text = "The longest such turn since the start."
    yield _gauge("loop_blocked_longest_seconds", text, process.loop_blocked_longest_s)
    if process.tls_expires_s:
        text = "When the certificate in use ends."
        yield _gauge("tls_certificate_expiry_timestamp_seconds", text, process.tls_expires_s)
    reloads = {"done": process.tls_reloads, "failed": process.tls_reload_failures}
    yield _labelled("tls_reloads", "Changed files of [tls] that were read.", "outcome", reloads)


def _topics(series: TopicSeries, names: Mapping[str, str]) -> Iterator[Metric]:
    rows = list(series.rows(names))
    for unit in ("messages", "bytes"):
        text = f"{unit.capitalize()} of a topic on this server, stored (in) and read (out)."
        family = CounterMetricFamily(f"{PREFIX}topic_{unit}", text, labels=["topic", "direction"])
        for topic, counts in rows:
            for direction in ("in", "out"):
                family.add_metric([topic, direction], counts[f"{unit}_{direction}"])
        yield family
