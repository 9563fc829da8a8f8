"""GroupTopics: the topics that members of a group read, counted as members come and go; pure."""

from collections.abc import Iterable, Mapping


class GroupTopics:
    """Partitions by topic uuid, of topics that a member reads.

    A change costs what one member subscribes to, however many members there are. ``counts`` of a
    call has at least the topics that the member reads now.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.partitions = 0  # of all topics
        self.read = 0  # topics of all members, counted for each of them
        self._readers: dict[str, int] = {}

    def partitions_with(
        self, before: frozenset[str], after: frozenset[str], counts: Mapping[str, int]
    ) -> int:
        """How many partitions there would be if a member read other topics than before."""
        known, total = self.counts, self.partitions
        for topic in before - after:
            if self._readers[topic] == 1:
                total -= known[topic]
        for topic in after - before:
            if topic not in known:
                total += counts[topic]
        for topic, count in self._news(counts):
            if topic in known:
                total += count - known[topic]
        return total

    def replace(
        self, before: frozenset[str], after: frozenset[str], counts: Mapping[str, int]
    ) -> None:
        """A member reads other topics than before."""
        known, readers = self.counts, self._readers
        for topic in before - after:
            readers[topic] -= 1
            if not readers[topic]:
                self.partitions -= known[topic]
                del readers[topic], known[topic]
        for topic in after - before:
            if topic in readers:
                readers[topic] += 1
            else:
                readers[topic], known[topic] = 1, counts[topic]
                self.partitions += counts[topic]
        self.read += len(after) - len(before)

    def resize(self, counts: Mapping[str, int]) -> bool:
        """Topics have so many partitions now. Returns: whether that is new."""
        known, resized = self.counts, False
        for topic, count in self._news(counts):
            if topic in known and known[topic] != count:
                self.partitions += count - known[topic]
                known[topic], resized = count, True
        return resized

    def _news(self, counts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
        """Usually there are none, as compiled code finds out."""
        return () if counts.items() <= self.counts.items() else counts.items()
