"""Rollups: totals that add up, percentiles of differences, and what is not known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from opentalos.broker.figures.metrics import By
from opentalos.broker.figures.ring import IDLE_SAMPLES
from opentalos.broker.figures.rollup import Label, Question, Rollup, Sample, Series, merged
from opentalos.group.directory import GroupOnTopic
from opentalos.wire.metrics.latency import Latency

STEP_MS = 10_000
START_MS = 1_790_000_000_000 - 1_790_000_000_000 % 600_000
TOTAL: Label = ("", -1, "")


async def pause() -> None:
    """Nothing else runs here."""


def sample(traffic: Mapping[tuple[str, int], Sequence[int]] | None = None, **fields: Any) -> Sample:
    given: dict[str, Any] = {"errors": {}, "latencies": {}, "lags": {}}
    return Sample(traffic=traffic or {}, **given | fields)


def messages(count: int) -> list[int]:
    return [count, 10 * count, 1, 0, 0]


async def rollup(*samples: Sample, bytes_max: int = 8 << 20) -> Rollup:
    made = Rollup(STEP_MS, bytes_max)
    for number, each in enumerate(samples):
        await made.add(START_MS + (number + 1) * STEP_MS, each, pause)
    return made


def question(metric: str = "messages_in", by: By = By.TOTAL, **fields: Any) -> Question:
    given: dict[str, Any] = {
        "level": 0,
        "first": START_MS // STEP_MS,
        "count": 3,
        "step": 1,
    }
    return Question(metric=metric, by=by, **given | fields)


async def read(made: Rollup, asked: Question, labels: frozenset[Label] | None = None) -> Series:
    return await made.read(asked, labels, pause)


async def test_topics_and_their_partitions_add_up_to_the_total() -> None:
    made = await rollup(
        sample({("a", 0): messages(5), ("a", 1): messages(2), ("b", 0): messages(1)}),
        sample({("b", 0): messages(4)}),
    )
    total = await read(made, question())
    assert total.values == {TOTAL: [8.0, 4.0, None]}
    topics = await read(made, question(by=By.TOPIC))
    assert topics.values == {("a", -1, ""): [7.0, 0.0, None], ("b", -1, ""): [1.0, 4.0, None]}
    partitions = await read(made, question(by=By.PARTITION, topics=frozenset("a")))
    assert partitions.values == {("", 0, ""): [5.0, 0.0, None], ("", 1, ""): [2.0, 0.0, None]}
    assert made.totals(question(by=By.TOPIC)) == {("a", -1, ""): 7.0, ("b", -1, ""): 5.0}
    assert (await read(made, question("bytes_in"))).values == {TOTAL: [80.0, 40.0, None]}


async def test_what_has_no_line_is_in_the_rest() -> None:
    made = await rollup(sample({(name, 0): messages(len(name)) for name in ("a", "bb", "ccc")}))
    chosen: frozenset[Label] = frozenset([("ccc", -1, "")])
    found = await read(made, question(by=By.TOPIC, count=1), chosen)
    assert (found.values, found.rest) == ({("ccc", -1, ""): [3.0]}, [3.0])
    own = frozenset(["a", "ccc"])
    found = await read(made, question(by=By.TOPIC, count=1, topics=own), chosen)
    assert found.rest == [1.0]  # bb belongs to someone else


async def test_a_coarse_step_adds_up_and_a_gauge_shows_its_peak() -> None:
    group = GroupOnTopic("a", "alice/g")
    made = await rollup(
        *(sample({("a", 0): messages(1)}, lags={(group, 0): lag}) for lag in (4, 9, 2, 0, 0, 1))
    )
    assert (await read(made, question(count=2, step=3))).values == {TOTAL: [3.0, 3.0]}
    lags = await read(made, question("lag", By.PARTITION, count=2, step=3))
    assert lags.values == {("", 0, ""): [9.0, 1.0]}
    minute = question("lag", By.GROUP, level=1, first=START_MS // 60_000, count=1)
    assert (await read(made, minute)).values == {("a", -1, "alice/g"): [9.0]}


async def test_a_lag_that_nobody_knows_is_no_0() -> None:
    group = GroupOnTopic("a", "alice/g")
    lags = [{(group, 0): first, (group, 1): 5} for first in (3, math.nan, 7)]
    made = await rollup(*(sample(lags=each) for each in lags))
    groups = question("lag", By.GROUP)
    assert (await read(made, groups)).values == {("a", -1, "alice/g"): [8.0, None, 12.0]}
    partitions = await read(made, question("lag", By.PARTITION))
    assert partitions.values == {("", 0, ""): [3.0, None, 7.0], ("", 1, ""): [5.0, 5.0, 5.0]}
    minute = question("lag", By.GROUP, level=1, first=START_MS // 60_000, count=1)
    assert (await read(made, minute)).values == {("a", -1, "alice/g"): [None]}
    assert made.totals(groups) == {("a", -1, "alice/g"): 12.0}


async def test_a_sum_with_a_lag_that_nobody_knows_is_not_known_either() -> None:
    """Neither of a topic with a damaged partition, nor of the groups without a line."""
    damaged, whole = GroupOnTopic("a", "alice/g"), GroupOnTopic("a", "alice/h")
    made = await rollup(sample(lags={(damaged, 0): math.nan, (whole, 0): 5}))
    for order in (By.TOPIC, By.TOTAL):
        asked = question("lag", order, count=1, topics=frozenset("a"))
        assert list((await read(made, asked)).values.values()) == [[None]]
    rest = (await read(made, question("lag", By.GROUP, count=1), frozenset())).rest
    assert rest == [None]


async def test_groups_of_others_count_only_where_they_may_be_seen() -> None:
    mine, other = GroupOnTopic("a", "alice/g"), GroupOnTopic("a", "bob/g")
    made = await rollup(sample(lags={(mine, 0): 3, (other, 0): 100, (other, 1): 1}))
    everyone = await read(made, question("lag", By.GROUP, count=1))
    assert set(everyone.values) == {("a", -1, "alice/g"), ("a", -1, "bob/g")}
    shared = question(
        "lag", By.TOTAL, count=1, topics=frozenset("a"), shared=frozenset("a"), tenant="alice"
    )
    assert (await read(made, shared)).values == {TOTAL: [3.0]}
    one = question("lag", By.PARTITION, count=1, topics=frozenset("a"), group="bob/g")
    assert (await read(made, one)).values == {("", 0, ""): [100.0], ("", 1, ""): [1.0]}


async def test_a_percentile_is_of_the_calls_within_its_step() -> None:
    latency, made = Latency(), Rollup(STEP_MS, 8 << 20)
    for number, seconds in enumerate((0.001, 0.1, 0.0)):
        for _ in range(100 if seconds else 0):
            latency.observe(seconds)
        await made.add(START_MS + (number + 1) * STEP_MS, sample(latencies={"put": latency}), pause)
    (values,) = (await read(made, question("put_p50", By.TOTAL))).values.values()
    first, second, idle = values
    assert first is not None
    assert second is not None
    assert 0.9 < first < 1.1
    assert 98 < second < 102
    assert idle is None  # no calls
    minute = question("put_p50", By.TOTAL, level=1, first=START_MS // 60_000, count=1)
    (whole,) = (await read(made, minute)).values.values()
    assert whole[0] is not None
    assert whole[0] < 1.1  # half of 200 calls took a millisecond
    high = question("put_p99", By.TOTAL, level=1, first=START_MS // 60_000, count=1)
    (whole,) = (await read(made, high)).values.values()
    assert whole[0] is not None
    assert whole[0] > 98


async def test_errors_have_a_total_and_kinds() -> None:
    made = await rollup(sample(errors={"TopicNotExist": 2, "ThrottleRejected": 1}), sample())
    assert (await read(made, question("errors", count=2))).values == {TOTAL: [3.0, 0.0]}
    kinds = await read(made, question("errors", By.ERROR, count=2))
    assert kinds.values == {
        ("", -1, "TopicNotExist"): [2.0, 0.0],
        ("", -1, "ThrottleRejected"): [1.0, 0.0],
    }


async def test_a_step_without_a_sample_is_not_known() -> None:
    made = await rollup(sample({("a", 0): messages(1)}))
    await made.add(START_MS + 3 * STEP_MS, sample({("a", 0): messages(2)}), pause)  # after a gap
    assert (await read(made, question())).values == {TOTAL: [1.0, None, 2.0]}


async def test_a_dropped_series_says_so_and_is_not_shown_as_zero() -> None:
    made = Rollup(STEP_MS, 1 << 20)
    places = [f"{number:036}" for number in range(600)]
    await made.add(START_MS + STEP_MS, sample({(place, 0): messages(1) for place in places}), pause)
    found = await read(made, question(by=By.TOPIC, count=1))
    assert found.notes
    assert "series_bytes_max" in found.notes[0]
    left_out = next(place for place in places if (place, -1, "") not in found.values)
    asked: frozenset[Label] = frozenset([(left_out, -1, "")])
    one = question(by=By.TOPIC, count=1, topics=frozenset([left_out]))
    assert (await read(made, one, asked)).values == {(left_out, -1, ""): [None]}
    # The rest has it: all topics beyond those that are shown.
    few: frozenset[Label] = frozenset(list(found.values)[:2])
    assert (await read(made, question(by=By.TOPIC, count=1), few)).rest == [598.0]
    assert made.bytes <= 1 << 20


async def test_a_topic_that_returns_is_unknown_for_the_time_before() -> None:
    idle = [sample()] * (IDLE_SAMPLES + 1)
    crowd = sample({(f"{number}", 0): messages(1) for number in range(200)})
    old = [sample({("old", 0): messages(count)}) for count in (7, 9)]
    made = await rollup(old[0], *idle, crowd, *idle, old[1], bytes_max=1 << 20)
    count = 2 * len(idle) + 3
    asked = question(by=By.TOPIC, count=count, topics=frozenset(["old"]))
    (values,) = (await read(made, asked)).values.values()
    assert values == [*[None] * (count - 1), 9.0]


def test_what_one_server_does_not_know_another_may() -> None:
    assert merged([1.0, None, None], [2.0, 5.0, None], add=True) == [3.0, 5.0, None]
    assert merged([1.0, 7.0], [2.0, 5.0], add=False) == [2.0, 7.0]
