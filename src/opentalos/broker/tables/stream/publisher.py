"""Publisher: puts the entries of one shard into its streams' topics, each row's in order.

A shard and stream together are one idempotent producer, whose epoch is that of the shard's claim.
Each partition of a stream has a lane; see ``publish_lane.py`` for what happens there.
"""

from collections.abc import Callable, Iterable, Mapping

from opentalos.broker.tables.stream.outbox import Entry
from opentalos.broker.tables.stream.publish_lane import (
    UNPLACED,
    Publishing,
    PublishLane,
    resource_of,
)
from opentalos.catalog.tables.table import StreamState
from opentalos.sds.key_format import share_of


class Publisher:
    """The lanes of one opening of a shard; ``epoch`` is that of lanes to come."""

    def __init__(self, publishing: Publishing, epoch: int) -> None:
        self.publishing = publishing
        self.epoch = epoch
        self._lanes: dict[tuple[int, int], PublishLane] = {}  # by stream id and partition

    def push(self, streams: Mapping[int, StreamState], entries: Iterable[Entry]) -> list[Entry]:
        """Queue and send entries, each row's in order; return those whose stream is gone."""
        touched: dict[PublishLane, None] = {}
        unwanted: list[Entry] = []
        for entry in entries:
            stream = streams.get(entry.stream)
            if stream is None:
                unwanted.append(entry)
                continue
            lane = self._lane(stream, entry.key)
            lane.add(entry)
            touched[lane] = None
        for lane in touched:
            lane.kick()
        return unwanted

    def end(self, wanted: Callable[[int], bool]) -> list[Entry]:
        """Close the lanes of streams that are not wanted; return what they had not published."""
        left: list[Entry] = []
        for place in [place for place in self._lanes if not wanted(place[0])]:
            left += self._lanes.pop(place).close()
        return left

    def renew(self, lane: PublishLane, epoch: int) -> None:
        """A lane needed a larger epoch; lanes to come use it as well."""
        self.epoch = epoch
        lane.renewed(epoch)

    def refused(self) -> list[PublishLane]:
        """Lanes whose topic rejects puts now."""
        return [lane for lane in self._lanes.values() if lane.refused_since_s is not None]

    @property
    def idle(self) -> bool:
        """Everything is published."""
        return all(lane.idle for lane in self._lanes.values())

    def _lane(self, stream: StreamState, key: bytes) -> PublishLane:
        """The lane of an entry; while some of the stream wait for its topic, the one they are in.

        So an entry never overtakes an earlier one of its row.
        """
        topic = self.publishing.context.topics.by_resource(resource_of(stream))
        unplaced = self._lanes.get((stream.id, UNPLACED))
        partition = UNPLACED
        if topic is not None and unplaced is None:
            partition = share_of(self.publishing.schema, key, topic.partitions)
        lane = self._lanes.get((stream.id, partition))
        if lane is None:
            lane = PublishLane(self.publishing, stream, partition, self.epoch, self._moved)
            self._lanes[stream.id, partition] = lane
        return lane

    def _moved(self, lane: PublishLane) -> None:
        """The topic is visible now, or no longer has this partition."""
        del self._lanes[lane.stream.id, lane.partition]
        self.push({lane.stream.id: lane.stream}, lane.close())
