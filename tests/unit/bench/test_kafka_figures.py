"""What Kafka's tools print is read as it is meant."""

import pytest
from bench.kafka_figures import Turns, consumed, produced

# In the form of Kafka 4.3.1.
PRODUCER = """\
120000 records sent, 23990.4 records/sec (23.43 MB/sec), 600.1 ms avg latency, 900.0 ms max latency.
200000 records sent, 30000.0 records/sec (29.30 MB/sec), 500.1 ms avg latency, 900.0 ms max \
latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.
150000 records sent, 40000.5 records/sec (39.06 MB/sec), 400.1 ms avg latency, 800.0 ms max \
latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.
"""
CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-01 10:00:00:000, 2026-11-01 10:00:03:000, 585.9375, 195.3125, 600000, 200000.0000, \
300, 2700, 217.0139, 222222.2222
"""


def test_the_rate_of_a_producer_is_that_after_its_warm_up() -> None:
    assert produced(PRODUCER) == 40_000.5


def test_a_producer_that_ends_early_has_no_rate() -> None:
    with pytest.raises(RuntimeError, match="unexpected output"):
        produced(PRODUCER.splitlines()[0])


def test_the_rate_of_a_consumer_includes_its_join() -> None:
    assert consumed(CONSUMER, 600_000) == 195.3125


def test_a_consumer_that_read_less_has_no_rate() -> None:
    with pytest.raises(RuntimeError, match="read 600000"):
        consumed(CONSUMER, 600_001)
    with pytest.raises(RuntimeError, match="unexpected output"):
        consumed(CONSUMER.split("2026")[0], 600_000)


def test_ratios_are_of_the_same_round() -> None:
    turns = Turns()
    for ours, theirs in ((200.0, 100.0), (300.0, 300.0), (90.0, 60.0)):
        turns.add("consume", ours)
        turns.add("kafka", theirs)
    figure = turns.ratio("MB/s", "consume", "kafka", 1.2)
    assert figure.values == pytest.approx([2.0, 1.0, 1.5])
    assert figure.met is True
