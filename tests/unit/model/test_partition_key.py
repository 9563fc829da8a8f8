"""Partitions by key are those of the official Java SDK."""

import pytest

from opentalos.model.message import partition_of


@pytest.mark.parametrize(
    ("key", "partitions", "partition"),
    # Java: "hello".hashCode() is 99162322, "".hashCode() is 0, "polygenelubricants".hashCode() is
    # the smallest int, "\U0001f600" is two code units.
    [("hello", 8, 0), ("hello", 256, 11), ("", 3, 0), ("polygenelubricants", 7, 0),
     ("\U0001f600", 1 << 20, 866), ("zzzzzz", 2, 1)],
)  # fmt: skip
def test_a_key_has_the_partition_of_the_java_partitioner(
    key: str, partitions: int, partition: int
) -> None:
    assert partition_of(key, partitions) == partition


def test_every_key_has_a_partition() -> None:
    found = {partition_of(f"key-{number * 7919}", 3) for number in range(1000)}
    assert found == {0, 1, 2}
