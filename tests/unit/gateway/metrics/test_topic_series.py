"""Series by topic are bounded, and no counter ever falls."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from opentalos.gateway.metrics.topic_series import OTHER, TopicSeries

NAMES = {f"u{number}": f"alice/t{number}" for number in range(6)}


@dataclass
class Counts:
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0


def bytes_in(series: TopicSeries) -> dict[str, int]:
    return {label: counts["bytes_in"] for label, counts in series.rows(NAMES)}


def test_the_busiest_topics_get_their_own_series_and_keep_them() -> None:
    series = TopicSeries(2)
    traffic = {"u0": Counts(bytes_in=1), "u1": Counts(bytes_in=5), "u2": Counts(bytes_in=9)}
    series.update(traffic)
    assert bytes_in(series) == {"alice/t2": 9, "alice/t1": 5, OTHER: 1}
    traffic["u0"].bytes_in = 1000
    series.update(traffic)
    assert bytes_in(series) == {"alice/t2": 9, "alice/t1": 5, OTHER: 1000}


def test_a_topic_that_moves_up_leaves_what_it_had_to_the_rest() -> None:
    series = TopicSeries(1)
    traffic = {"u0": Counts(bytes_in=9), "u1": Counts(bytes_in=5)}
    series.update(traffic)
    del traffic["u0"]
    traffic["u1"].bytes_in = 7
    series.update(traffic)
    assert bytes_in(series) == {"alice/t1": 2, OTHER: 5}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.booleans()), max_size=40))
def test_no_series_falls_and_nothing_is_lost(steps: list[tuple[int, int, bool]]) -> None:
    series, traffic, total, before = TopicSeries(2), dict[str, Counts](), 0, dict[str, int]()
    gone = 0
    for number, grown, deleted in steps:
        uuid = f"u{number}"
        own = bytes_in(series).get(NAMES[uuid], 0)
        if deleted and uuid in traffic:
            del traffic[uuid]
            gone += own
            before.pop(NAMES[uuid], None)
        else:
            traffic.setdefault(uuid, Counts()).bytes_in += grown
            total += grown
        series.update(traffic)
        now = bytes_in(series)
        assert len(now) <= 3
        assert all(now[label] >= value for label, value in before.items() if label in now)
        assert sum(now.values()) + gone == total
        before = now
