"""The tail cache keeps its budget and gives only what is contiguous."""

from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.log.tail_cache import CachedTail, TailCache, block_bytes
from opentalos.model.message import StoredBlock


def stored(base: int, payload: bytes = b"x", messages: int = 1) -> StoredBlock:
    return StoredBlock(base, messages, 1, 2, 0, 1, payload)


def fill(tail: CachedTail, first: int, count: int) -> None:
    blocks = [stored(first + number) for number in range(count)]
    tail.add(blocks, sum(map(block_bytes, blocks)))


def test_the_partition_unused_for_longest_shrinks_first() -> None:
    size = block_bytes(stored(0))
    cache = TailCache(10 * size)
    left, right = cache.tail(), cache.tail()
    fill(left, 0, 5)
    fill(right, 0, 5)
    assert left.read(0, 1, 1)  # now the right one is unused for longer
    fill(left, 5, 3)
    assert (left.bytes, right.bytes) == (8 * size, 2 * size)
    assert right.read(0, 1, 1) is None
    assert right.read(3, 9, 999) == [stored(3), stored(4)]


def test_a_gap_empties_what_was_before() -> None:
    tail = TailCache(1 << 20).tail()
    fill(tail, 0, 5)
    fill(tail, 7, 2)
    assert tail.read(4, 1, 1) is None
    assert tail.read(8, 1, 1) == [stored(8)]


def test_a_block_larger_than_the_budget_is_not_kept() -> None:
    cache = TailCache(1_000)
    tail = cache.tail()
    big = stored(0, b"z" * 5_000)
    tail.add([big], block_bytes(big))
    assert cache.bytes == 0
    assert tail.read(0, 1, 1) is None


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.booleans()), max_size=60),
    st.integers(0, 30),
)
@settings(max_examples=60)
def test_any_history_keeps_the_budget_and_the_sums(
    steps: list[tuple[int, int, bool]], budget_blocks: int
) -> None:
    cache = TailCache(budget_blocks * block_bytes(stored(0)))
    tails = [cache.tail() for _ in range(3)]
    ends = [0, 0, 0]
    for which, count, gap in steps:
        ends[which] += gap
        fill(tails[which], ends[which], count)
        ends[which] += count
        assert cache.bytes <= cache.bytes_max
        assert cache.bytes == sum(tail.bytes for tail in tails)
        for tail, end in zip(tails, ends, strict=True):
            held = tail.bytes // block_bytes(stored(0))
            for offset in (end - held, end - 1):
                blocks = tail.read(offset, 1_000, 1 << 20)
                expected = [stored(number) for number in range(offset, end)]
                assert blocks == (expected if held else None)
            assert tail.read(end - held - 1, 1, 1) is None
            assert tail.read(end, 1, 1) is None
