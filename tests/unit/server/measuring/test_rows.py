"""Rows of a step: what grew, whose it is, and no more rows than allowed."""

from collections.abc import Mapping
from typing import Any

from opentalos.broker.groups.lag.sampled import Lag
from opentalos.catalog.topics.topic import Topic
from opentalos.log.counters import Traffic
from opentalos.model.names import METRICS_TOPIC, SYSTEM_TENANT
from opentalos.server.measuring.rows import ServerRows, Snapshot
from opentalos.wire.metrics.latency import Latency
from opentalos.wire.metrics.measurement import Measurement
from opentalos.wire.metrics.measures import OTHER, Kind, Scope, names


def topic(uuid: str, owner: str = "alice", name: str = "") -> Topic:
    return Topic(
        uuid=uuid,
        owner=owner,
        name=name or f"topic-{uuid}",
        partitions=4,
        consumer_partitions=4,
        partitions_ever=4,
        retention_s=3_600,
    )


TOPICS = {
    item.uuid: item for item in (topic("a"), topic("b"), topic("m", SYSTEM_TENANT, "__metrics"))
}


def look(**fields: Any) -> Snapshot:
    given: dict[str, Any] = {
        "counters": {},
        "gauges": {},
        "latencies": {},
        "traffic": {},
        "topic_of": TOPICS.get,
        "lags": {},
    }
    return Snapshot(**(given | fields))


def rows_of(made: ServerRows, **fields: Any) -> list[Measurement]:
    return made.step(20_000, 10_000, look(**fields))


def own(rows: list[Measurement]) -> list[tuple[str, str, int]]:
    return [(row.tenant, row.topic, row.partition) for row in rows[1:]]


def traffic(**partitions: Mapping[int, Traffic]) -> Mapping[str, Mapping[int, Traffic]]:
    return partitions


def test_a_row_has_the_growth_since_the_last_one() -> None:
    made, counted = ServerRows("c1", "s1", 10), Traffic()
    counted.messages_in, counted.payload_in, counted.blocks_in = 5, 500, 2
    rows = rows_of(made, counters={"put_requests": 3.0}, traffic=traffic(a={1: counted}))
    server, partition = rows
    assert server.key == ("server", "c1", "s1", "", "", -1, 20_000)
    assert server.sums["put_requests"] == 3.0
    assert server.sums["put_messages"] == 5.0
    assert partition.key == ("server", "c1", "s1", "alice", "topic-a", 1, 20_000)
    assert partition.sums["put_messages"] == 5.0
    assert partition.sums["put_bytes"] == 500.0
    assert partition.sums["put_blocks"] == 2.0
    counted.messages_in, counted.gets, counted.bytes_out = 6, 1, 70
    rows = rows_of(made, counters={"put_requests": 4.0}, traffic=traffic(a={1: counted}))
    assert rows[0].sums["put_requests"] == 1.0
    assert rows[1].sums["put_messages"] == 1.0
    assert (rows[1].sums["get_requests"], rows[1].sums["get_bytes"]) == (1.0, 70.0)
    rows = rows_of(made, counters={"put_requests": 4.0}, traffic=traffic(a={1: counted}))
    assert own(rows) == []
    assert rows[0].sums["put_requests"] == 0.0


def test_a_topic_that_was_forgotten_and_found_again_counts_from_zero() -> None:
    made = ServerRows("", "s1", 10)
    rows_of(made, traffic=traffic(a={0: Traffic(messages_in=9)}))
    rows = rows_of(made, traffic=traffic(a={0: Traffic(messages_in=2)}))
    assert rows[1].sums["put_messages"] == 2.0


def test_rows_are_bounded_and_the_rest_is_one_row() -> None:
    made = ServerRows("", "s1", 2)
    partitions = {
        number: Traffic(messages_in=1, payload_in=100 * (number + 1)) for number in range(4)
    }
    rows = rows_of(made, traffic=traffic(a=partitions, b={0: Traffic(messages_in=7)}))
    assert own(rows) == [("alice", "topic-a", 3), ("alice", "topic-a", 2), ("", OTHER, -1)]
    assert rows[0].sums["rows_merged"] == 3.0
    assert rows[-1].sums["put_messages"] == 9.0
    assert sum(row.sums["put_messages"] for row in rows[1:]) == rows[0].sums["put_messages"]


def test_what_the_service_writes_itself_is_left_out() -> None:
    made = ServerRows("", "s1", 10)
    rows = rows_of(made, traffic=traffic(m={0: Traffic(messages_in=7)}))
    assert own(rows) == []
    assert rows[0].sums["put_messages"] == 0.0


def test_a_lag_has_a_row_without_any_traffic() -> None:
    made = ServerRows("", "s1", 10)
    lags = {("a", 0): Lag(30, 20), ("a", 1): Lag(0, 0), ("m", 2): Lag(5, 5)}
    rows = rows_of(made, lags=lags)
    assert own(rows) == [("alice", "topic-a", 0), (SYSTEM_TENANT, METRICS_TOPIC, 2)]
    assert rows[1].gauges == {"consumer_lag": 30.0, "consumer_lag_max": 20.0}
    assert rows[0].gauges["consumer_lag"] == 35.0
    assert rows[0].gauges["consumer_lag_max"] == 20.0


def test_traffic_of_a_topic_that_is_gone_has_no_row_of_its_own() -> None:
    made = ServerRows("", "s1", 10)
    rows = rows_of(made, traffic=traffic(gone={0: Traffic(messages_in=1)}))
    assert own(rows) == []


def test_latencies_of_the_step_become_a_sketch() -> None:
    made, latency = ServerRows("", "s1", 10), Latency()
    latency.observe(0.004)
    assert sum(rows_of(made, latencies={"put_ms": latency})[0].sketches["put_ms"].values()) == 1
    assert rows_of(made, latencies={"put_ms": latency})[0].sketches == {}
    latency.observe(0.004)
    assert sum(rows_of(made, latencies={"put_ms": latency})[0].sketches["put_ms"].values()) == 1


def test_partition_rows_have_documented_measures_only() -> None:
    made = ServerRows("", "s1", 10)
    rows = rows_of(made, traffic=traffic(a={0: Traffic(gets=1)}), lags={("a", 0): Lag(1, 1)})
    assert rows[1].sums.keys() == names(Kind.SUM, Scope.PARTITION)
    assert rows[1].gauges.keys() == names(Kind.GAUGE, Scope.PARTITION)
