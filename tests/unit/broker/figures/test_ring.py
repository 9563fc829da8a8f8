"""Rings: sparse chunks, a bound in bytes, and who makes room for whom."""

import tracemalloc

from opentalos.broker.figures.ring import (
    CHUNK,
    CHUNK_BYTES,
    IDLE_SAMPLES,
    LEVELS,
    RING_BYTES,
    SWEEP_SAMPLES,
    Pool,
    Ring,
    Write,
)

START = 1_000_000 * 60


def slots(sample: int) -> list[int]:
    return [(START + sample) // level.samples for level in LEVELS]


def write(pool: Pool[str], key: str, sample: int, amount: float = 1.0) -> bool:
    return pool.write(key, slots(sample), [amount] * len(LEVELS), Write.ADD)


def test_each_level_adds_up_what_its_intervals_had() -> None:
    ring = Ring(START)
    for sample in range(60):
        ring.write(slots(sample), [float(sample)] * 3, Write.ADD)
    assert list(ring.read(0, START, 61)) == [*map(float, range(60)), 0.0]
    assert list(ring.read(1, START // 6, 2)) == [15.0, 51.0]
    assert list(ring.read(2, START // 60, 2)) == [sum(range(60)), 0.0]


def test_a_gauge_keeps_the_largest_of_an_interval_and_a_percentile_the_latest() -> None:
    gauge, latest = Ring(START), Ring(START)
    for sample, amount in enumerate((3.0, 9.0, 4.0)):
        gauge.write(slots(sample), [amount] * 3, Write.LARGEST)
        latest.write(slots(sample), [amount] * 3, Write.SET)
    assert list(gauge.read(1, START // 6, 1)) == [9.0]
    assert list(latest.read(1, START // 6, 1)) == [4.0]


def test_a_read_crosses_chunks_and_is_zero_where_nothing_was_written() -> None:
    ring = Ring(START)
    first = START - START % CHUNK
    ring.write([first + CHUNK - 1], [5.0], Write.ADD)
    ring.write([first + CHUNK], [7.0], Write.ADD)
    assert list(ring.read(0, first + CHUNK - 2, 4)) == [0.0, 5.0, 7.0, 0.0]
    assert list(ring.read(0, first - 3 * CHUNK, 2)) == [0.0, 0.0]


def test_a_rare_series_has_one_chunk_a_level() -> None:
    pool: Pool[str] = Pool(1 << 20, LEVELS)
    assert write(pool, "a", 0)
    assert pool.bytes == RING_BYTES + 3 * CHUNK_BYTES
    for sample in range(1, 10):
        write(pool, "a", sample)
    assert pool.bytes == RING_BYTES + 3 * CHUNK_BYTES


def test_what_was_active_longest_ago_makes_room() -> None:
    size = RING_BYTES + 3 * CHUNK_BYTES
    pool: Pool[str] = Pool(2 * size, LEVELS)
    assert write(pool, "a", 0)
    assert write(pool, "b", 1)
    assert write(pool, "a", 2)
    later = 2 + IDLE_SAMPLES
    assert write(pool, "c", later)  # b was idle for longer
    assert (list(pool.rings), pool.dropped, pool.lost) == (["a", "c"], 1, True)


def test_series_that_are_all_active_do_not_take_turns() -> None:
    size = RING_BYTES + 3 * CHUNK_BYTES
    pool: Pool[str] = Pool(2 * size, LEVELS)
    for sample in range(50):
        pool.begin(slots(sample))
        assert write(pool, "a", sample)
        assert write(pool, "b", sample)
        assert not write(pool, "c", sample)
        assert pool.left_out == 1
    assert (sorted(pool.rings), pool.dropped, pool.lost) == (["a", "b"], 0, True)


def test_old_chunks_and_then_series_are_removed() -> None:
    pool: Pool[str] = Pool(1 << 20, LEVELS)
    write(pool, "a", 0)
    day = LEVELS[1].samples * (LEVELS[1].points + CHUNK)
    pool.begin(slots(day))
    assert pool.bytes == RING_BYTES + CHUNK_BYTES  # of the week
    pool.begin(slots(day + SWEEP_SAMPLES + LEVELS[2].samples * (LEVELS[2].points + CHUNK)))
    assert (pool.bytes, len(pool.rings), pool.lost) == (0, 0, False)


def test_a_pool_takes_no_more_memory_than_its_bound() -> None:
    bytes_max = 1 << 20
    tracemalloc.start()
    pool: Pool[tuple[str, str, int, str]] = Pool(bytes_max, LEVELS)
    before = tracemalloc.get_traced_memory()[0]
    for sample in range(0, 4_000, 7):
        pool.begin(slots(sample))
        for number in range(sample % 90, sample % 90 + 40):
            key = (f"metric-{number % 5}", f"topic-{number:036}", number, "")
            pool.write(key, slots(sample), [1.0] * 3, Write.ADD)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert pool.bytes <= bytes_max
    assert 0.7 * pool.bytes < used <= pool.bytes
    assert pool.dropped > 0
