"""Benchmarks of the write path over real HDFS."""

import statistics
from collections.abc import Iterator

from bench import load
from bench.bare_flush import BareFlush
from bench.client import BenchTopic, Client
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster, Settings
from bench.cpu_split import cpu_split
from bench.load import LoadResult
from bench.report import Figure, at_least, at_most
from bench.takeover_figures import fill, small_blocks

MESSAGE_BYTES = 1024
PARTITIONS = 8
CONNECTIONS_GROUPED = 256  # enough to keep a commit group waiting
CONNECTIONS = 64
OPEN_LOOP_SHARE = 0.5  # of the rate of the closed loop
WARM_UP_S = 6  # JIT warm-up: 50 to 140 us per put in the first seconds


def group_commit_gain(plan: ClusterPlan) -> Iterator[Figure]:
    """One partition, three replicas, synced: one sync per group against one sync per put."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    clusters = {
        grouped: Cluster(plan.work, plan.backends, ["s1"], {"log": {"group_commit": grouped}})
        for grouped in rates
    }
    with clusters[True], clusters[False]:
        topics = {
            grouped: cluster.create_topic("puts", 1, durability="synced")
            for grouped, cluster in clusters.items()
        }
        for grouped, cluster in clusters.items():
            _closed(plan, cluster, topics[grouped], CONNECTIONS_GROUPED, WARM_UP_S)
        for _ in range(plan.repeats):
            for grouped, cluster in clusters.items():
                run = _closed(plan, cluster, topics[grouped], CONNECTIONS_GROUPED, plan.seconds)
                rates[grouped].append(run.requests_per_s)
    ratios = [on / off for on, off in zip(rates[True], rates[False], strict=True)]
    notes = {
        "puts_per_s": statistics.median(rates[True]),
        "one_sync_per_put": statistics.median(rates[False]),
        "connections": CONNECTIONS_GROUPED,
    }
    yield at_least("1 partition, synced: against one sync per put", "x", 10.0, ratios, **notes)


def flushed_puts(plan: ClusterPlan) -> Iterator[Figure]:
    """One server, 8 partitions, flushed: the rate, then P99 at half of it against the bare loop."""
    backends = plan.backends
    with Cluster(plan.work, backends, ["s1"]) as cluster:
        file = f"{backends.hdfs_url}/{cluster.name}-bare"
        with BareFlush(file, backends.hdfs_conf_dir, backends.jars) as bare:
            topic = cluster.create_topic("puts", PARTITIONS, durability="flushed")
            _closed(plan, cluster, topic, CONNECTIONS, WARM_UP_S)
            bare.run(WARM_UP_S)
            server = cluster.servers["s1"]
            before = cpu_split(server.pid, backends)
            runs = [
                _closed(plan, cluster, topic, CONNECTIONS, plan.seconds)
                for _ in range(plan.repeats)
            ]
            spent = cpu_split(server.pid, backends) - before
            puts = sum(run.requests for run in runs)
            rates = [run.requests_per_s for run in runs]
            yield at_least(
                f"{PARTITIONS} partitions, flushed, {CONNECTIONS} connections",
                "puts/s",
                5_000.0,
                rates,
                p99_ms=statistics.median(run.p99_us for run in runs) / 1e3,
                **spent.notes(puts, sum(run.client_cpu_s for run in runs)),
            )
            yield _latency(plan, cluster, topic, bare, OPEN_LOOP_SHARE * statistics.median(rates))


def flushed_over_many(plan: ClusterPlan) -> Iterator[Figure]:
    """One server, flushed: the rate over many partitions against that over 8, in turn.

    Without a journal, then with one.
    """
    for journal in (False, True):
        yield _flushed_over_many(plan, journal=journal)


def _flushed_over_many(plan: ClusterPlan, *, journal: bool) -> Figure:
    settings: Settings = {
        **small_blocks(journal=journal),
        "topic": {"partitions_max": plan.partitions},
    }
    rates: dict[int, list[float]] = {PARTITIONS: [], plan.partitions: []}
    with Cluster(plan.work, plan.backends, ["s1"], settings) as cluster:
        topics = {
            count: cluster.create_topic(f"puts-{count}", count, durability="flushed")
            for count in rates
        }
        for topic in topics.values():
            fill(plan, cluster, topic)
            _closed(plan, cluster, topic, CONNECTIONS, WARM_UP_S)
        for _ in range(plan.repeats):
            for count, topic in topics.items():
                run = _closed(plan, cluster, topic, CONNECTIONS, plan.seconds)
                rates[count].append(run.requests_per_s)
    pairs = zip(rates[plan.partitions], rates[PARTITIONS], strict=True)
    kind = "flushed, journal" if journal else "flushed"
    return at_least(
        f"{plan.partitions:,} partitions, {kind}: against the rate over {PARTITIONS}",
        "x",
        0.7,
        [many / few for many, few in pairs],
        many=statistics.median(rates[plan.partitions]),
        few=statistics.median(rates[PARTITIONS]),
    )


def _latency(
    plan: ClusterPlan, cluster: Cluster, topic: BenchTopic, bare: BareFlush, rate: float
) -> Figure:
    """Alternate the two loops, so that noise of the machine affects both."""
    ratios, p99s_ms, bare_ms = [], [], []
    for _ in range(plan.repeats):
        _, flush_ms = bare.run(plan.seconds)
        run = _replayed(plan, cluster, topic, connections=CONNECTIONS, rate=rate)
        _check(run)
        bare_ms.append(flush_ms)
        p99s_ms.append(run.p99_us / 1e3)
        ratios.append(run.p99_us / 1e3 / flush_ms)
    return at_most(
        f"P99 at {rate:,.0f} puts/s against a bare flush loop",
        "x",
        4.0,
        ratios,
        p99_ms=statistics.median(p99s_ms),
        bare_p99_ms=statistics.median(bare_ms),
    )


def _closed(
    plan: ClusterPlan, cluster: Cluster, topic: BenchTopic, connections: int, seconds: int
) -> LoadResult:
    """A closed loop; verifies that the log contains every acknowledged message."""
    client = Client(cluster.ports[0])
    before = topic.stored_messages(client)
    run = _replayed(plan, cluster, topic, connections=connections, seconds=seconds)
    _check(run)
    stored = topic.stored_messages(Client(cluster.ports[0])) - before
    if stored < run.requests:
        raise RuntimeError(f"{run.requests} puts were answered but only {stored} are stored")
    return run


def _replayed(
    plan: ClusterPlan,
    cluster: Cluster,
    topic: BenchTopic,
    *,
    connections: int,
    rate: float = 0.0,
    seconds: int = 0,
) -> LoadResult:
    requests = load.write_request_file(
        plan.work / "puts.bin", topic.put_requests(block_bytes=MESSAGE_BYTES)
    )
    return load.replay(
        plan.binary,
        {cluster.ports[0]: requests},
        connections=connections,
        rate=rate,
        seconds=seconds or plan.seconds,
    )


def _check(run: LoadResult) -> None:
    if run.errors:
        raise RuntimeError(f"{run.errors} of {run.requests + run.errors} puts failed")
