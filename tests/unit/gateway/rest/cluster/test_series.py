"""REST of series: values by time, for those who may see them."""

from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.broker.figures.rollup import Sample
from opentalos.broker.values import Topic
from opentalos.group.directory import GroupOnTopic
from opentalos.wire.metrics.latency import Latency

STEP_MS = 10_000


@pytest.fixture
async def topics(call: Rest) -> list[Topic]:
    """Of alice, alice and bob; two samples of traffic, lag and errors."""
    bob = await call.user("bob")
    made = [
        await call.world.topic(alice(call), "orders", partitions=2),
        await call.world.topic(alice(call), "quiet"),
        await call.world.topic(bob, "secret"),
    ]
    orders, quiet, secret = (topic.uuid for topic in made)
    latency = Latency()
    latency.observe(0.002)
    rollup = call.world.broker.observing.series.rollup
    assert rollup is not None
    now_ms = call.world.broker.context.clock.wall_ms()
    last_ms = now_ms - now_ms % STEP_MS
    for at_ms in (last_ms - STEP_MS, last_ms):
        traffic = {
            (orders, 0): (5, 500, 1, 2, 200),
            (orders, 1): (1, 100, 0, 0, 0),
            (quiet, 0): (1, 10, 0, 0, 0),
            (secret, 0): (70, 7_000, 0, 0, 0),
        }
        await rollup.add(
            at_ms,
            Sample(
                traffic=traffic,
                errors={"ThrottleRejected": 3},
                latencies={"put": latency},
                lags={
                    (GroupOnTopic(orders, "alice/billing"), 0): 4,
                    (GroupOnTopic(orders, "alice/billing"), 1): 2,
                    (GroupOnTopic(orders, "bob/audit"), 0): 9,
                    (GroupOnTopic(secret, "bob/own"), 0): 1,
                },
            ),
            call.world.broker.context.work.pause,
        )
    return made


async def series(call: Rest, query: str, by: str = "alice") -> dict[str, Any]:
    replied = await call("GET", f"series?step_s=10&{query}", by=by)
    assert replied.status == 200, replied
    found: dict[str, Any] = replied.document
    assert len(found["times_s"]) == len(found["series"][0]["values"]) if found["series"] else True
    assert found["source"] == "memory"
    return found


def lines(found: dict[str, Any]) -> dict[str, list[Any]]:
    """The last two values by the label."""
    return {"/".join(line["labels"].values()): line["values"][-2:] for line in found["series"]}


@pytest.mark.usefixtures("topics")
async def test_a_tenant_sees_its_own_and_an_administrator_all(call: Rest) -> None:
    assert lines(await series(call, "metric=messages_in")) == {"": [7, 7]}
    assert lines(await series(call, "metric=messages_in", "root")) == {"": [77, 77]}
    own = await series(call, "metric=bytes_in&by=topic")
    assert lines(own) == {"alice/orders": [600, 600], "alice/quiet": [10, 10]}
    assert [line["total"] for line in own["series"]] == [1_200, 20]
    everything = await series(call, "metric=bytes_in&by=topic&limit=1", "root")
    assert lines(everything) == {"bob/secret": [7_000, 7_000], "2": [610, 610]}
    assert everything["series"][1]["labels"] == {"rest": "2"}
    limited = await series(call, "metric=bytes_in&by=topic&limit=1")
    assert limited["series"][1]["values"][-1] == 10  # and nothing of bob


@pytest.mark.usefixtures("topics")
async def test_a_topic_is_split_by_partition(call: Rest) -> None:
    found = await series(call, "metric=messages_in&topic=orders&by=partition")
    assert lines(found) == {"0": [5, 5], "1": [1, 1]}
    assert found["kind"] == "sum"
    assert found["series"][0]["values"][0] is None  # before the first sample
    assert "measured since" in found["partial"][0]["reason"]


@pytest.mark.usefixtures("topics")
async def test_lag_is_shown_of_groups_that_the_caller_may_see(call: Rest) -> None:
    groups = "metric=lag&by=group&topic=alice%2Forders"
    both = {"alice/orders/alice/billing": [6, 6], "alice/orders/bob/audit": [9, 9]}
    assert lines(await series(call, groups)) == both
    granted = {"permissions": ["DESCRIBE_TOPIC"]}
    await call("PUT", "topics/orders/permissions/bob", granted, by="alice")
    assert lines(await series(call, groups, "bob")) == {"alice/orders/bob/audit": [9, 9]}
    assert lines(await series(call, "metric=lag", "bob")) == {"": [10, 10]}
    traffic = await series(call, "metric=messages_in&topic=alice%2Forders", "bob")
    assert lines(traffic) == {"": [6, 6]}


async def test_lag_of_one_group_is_a_map_of_partitions_by_time(
    call: Rest, topics: list[Topic]
) -> None:
    await call("POST", "topics/orders/groups/billing/workers", by="alice")
    heat = "metric=lag&by=partition&topic=orders&group="
    assert lines(await series(call, heat + "billing")) == {"0": [4, 4], "1": [2, 2]}
    unknown = await call("GET", f"series?{heat}audit", by="alice")
    assert (unknown.status, unknown.document["title"]) == (404, "ConsumerGroupNotExist")


@pytest.mark.usefixtures("topics")
async def test_figures_of_servers_are_not_for_tenants(call: Rest) -> None:
    for query in ("metric=errors", "metric=put_p99", "metric=bytes_in&by=server"):
        assert (await call("GET", f"series?{query}", by="alice")).status == 403
    assert lines(await series(call, "metric=errors&by=error", "root")) == {
        "ThrottleRejected": [3, 3]
    }
    found = await series(call, "metric=put_p99", "root")
    assert found["unit"] == "ms"
    assert lines(found)["s1"][0] == pytest.approx(2, rel=0.02)
    assert lines(found)["s1"][1] is None  # no calls
    assert lines(await series(call, "metric=bytes_in&by=server", "root")) == {"s1": [7_610, 7_610]}


@pytest.mark.usefixtures("topics")
async def test_an_unknown_topic_and_one_of_others_answer_alike(call: Rest) -> None:
    replies = []
    for name in ("bob%2Fsecret", "bob%2Fnothing", "bob%2Fnot a name"):
        replied = await call("GET", f"series?topic={name.replace(' ', '%20')}", by="alice")
        replied.document.pop("instance")
        for shown in ("nothing", "not a name"):
            replied.document["detail"] = replied.document["detail"].replace(shown, "secret")
        replies.append((replied.status, replied.document))
    assert replies[0][0] == 404
    assert replies[0] == replies[1] == replies[2]


@pytest.mark.parametrize(
    "query",
    [
        "metric=errors&by=topic",
        "metric=lag&by=error",
        "metric=messages_in&by=partition",
        "metric=messages_in&group=g",
        "metric=messages_in&from_s=2000&to_s=1000",
        "metric=messages_in&from_s=1&to_s=1900000&step_s=600",
        "metric=messages_in&limit=500&by=topic&from_s=1&to_s=600000&step_s=600",
    ],
)
async def test_what_does_not_fit_together_is_said(call: Rest, query: str) -> None:
    replied = await call("GET", f"series?{query}")
    assert (replied.status, replied.document["title"]) == (422, "Unusable")


async def test_the_metrics_say_what_they_can_be_split_by(call: Rest) -> None:
    listed = (await call("GET", "series/metrics")).document["metrics"]
    lag = next(metric for metric in listed if metric["metric"] == "lag")
    assert lag == {
        "metric": "lag",
        "unit": "messages",
        "kind": "gauge",
        "by": ["total", "topic", "partition", "group"],
    }
