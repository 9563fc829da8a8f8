"""The loop's stalls: ever, of a recent window, and since the last interval."""

from opentalos.server.measuring.loop_watch import BUCKET_S, BUCKETS, LoopWatch


def test_the_recent_window_forgets_what_the_longest_ever_keeps() -> None:
    watch = LoopWatch()
    assert watch.recent_s() == 0.0
    watch.note(5.0, 0.3)
    watch.note(6.0, 0.1)
    assert (watch.longest_s, watch.recent_s()) == (0.3, 0.3)
    for bucket in range(1, BUCKETS):
        watch.note(bucket * BUCKET_S, 0.001)
        assert watch.recent_s() == 0.3, "it is within the window"
    watch.note(BUCKETS * BUCKET_S, 0.002)
    assert (watch.longest_s, watch.recent_s()) == (0.3, 0.002)


def test_a_stall_longer_than_the_window_is_the_only_recent_one() -> None:
    watch = LoopWatch()
    watch.note(1.0, 0.3)
    long_s = 2 * BUCKETS * BUCKET_S
    watch.note(1.0 + long_s, long_s)
    assert watch.recent_s() == long_s
    watch.note(1.0 + 2 * long_s, 0.001)
    assert watch.recent_s() == 0.001


def test_an_interval_takes_its_own_longest_stall() -> None:
    watch = LoopWatch()
    watch.note(1.0, 0.3)
    watch.note(2.0, 0.1)
    assert (watch.take_longest_s(), watch.take_longest_s()) == (0.3, 0.0)
    watch.note(3.0, 0.03)
    assert watch.take_longest_s() == 0.03
    assert round(watch.blocked_s, 3) == 0.43
