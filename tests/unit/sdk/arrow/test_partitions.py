"""Keys of a column are sent to the partitions that each of them has."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.settings.partitioning import Partitioning
from opentalos.sdk.arrow.partitions import NO_PARTITION, partitions_of, rows_by_partition
from opentalos.sdk.core.producer.partitioner import partitioner_of

KEYS = (
    st.none() | st.text(st.characters(codec="ascii"), max_size=70) | st.sampled_from(["é", "😀a"])
)


@settings(deadline=None)
@given(
    st.lists(KEYS, max_size=40),
    st.integers(1, 300),
    st.integers(0, 3),
    st.sampled_from(Partitioning),
)
def test_a_column_of_keys_is_hashed_as_one_key_is(
    keys: list[str | None], partitions: int, skipped: int, partitioning: Partitioning
) -> None:
    column = pa.array([*["before"] * skipped, *keys], pa.string()).slice(skipped)
    place = partitioning.partition_of
    wanted = [NO_PARTITION if key is None else place(key, partitions) for key in keys]
    found = partitions_of(column, partitioner_of(partitioning), partitions)
    assert found.tolist() == wanted


@pytest.mark.parametrize("keys", [["user-1", None, "user-2"], ["x" * 65, "é"]])
def test_a_partitioner_of_the_users_own_is_asked(keys: list[str | None]) -> None:
    chosen = partitions_of(pa.chunked_array([keys]), lambda key, count: len(key) + count, 4)
    assert chosen.tolist() == [NO_PARTITION if key is None else len(key) % 4 for key in keys]


def test_rows_keep_their_order_within_a_partition() -> None:
    chosen = partitions_of(pa.array(["b", "a", None, "b", "a"]), lambda key, _: ord(key) - 97, 2)
    found = {partition: rows.tolist() for partition, rows in rows_by_partition(chosen)}
    assert found == {NO_PARTITION: [2], 0: [1, 4], 1: [0, 3]}
