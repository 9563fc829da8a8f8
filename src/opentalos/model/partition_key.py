"""Which partition a partition key belongs to, the same for every producer."""

_HASH_MASK = 0xFFFFFFFF
_POSITIVE_MASK = 0x7FFFFFFF


def partition_of(key: str, partitions: int) -> int:
    """Partition of a key among ``partitions``, 0 or more.

    Java's hash code of the text, divided into intervals of equal length.

    Source: docs/protocol/consumers.md#partition-of-a-key.
    """
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _HASH_MASK
    interval = _POSITIVE_MASK // partitions
    return ((value & _POSITIVE_MASK) // interval) % partitions
