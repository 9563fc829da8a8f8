"""What the shards of one server did."""

from dataclasses import dataclass


@dataclass(slots=True)
class ShardCounts:
    """Counted since the start."""

    mutations: int = 0
    groups: int = 0  # of mutations that were written together
    published: int = 0  # entries that topics have, with those stored again
    blocks: int = 0  # of entries, into topics
    resent: int = 0  # entries sent again, whether they were stored before or not
    fenced: int = 0  # another server had opened the shard
    gaps: int = 0  # streams that were stopped
    opened: int = 0  # shards
    refused_full: int = 0  # mutations, since too many changes waited for their topics
