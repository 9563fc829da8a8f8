"""The offsets of one batch, as the JSON offset in Spark's checkpoint.

The end offset describes the whole batch: where each partition begins and ends, and how many tasks
share it. So a batch that is replayed after a restart has the same rows in the same input partitions
in the same order, whatever start offset Spark passes then (it requests the initial offset again
when the very first batch is replayed). The exactly-once effect of the sink depends on this.

Shape: {"v": 1, "tasks": 2, "skipped": 0, "begin": {RESOURCE: {"0": 5}}, "end": {RESOURCE: {...}}}
The resource name contains the topic's uuid: a topic that is created again is another topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from opentalos.model.errors import RequestError

Positions = Mapping[str, Mapping[int, int]]  # next offset by resource name and partition
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Offsets of one partition: ``begin`` <= offset < ``end``."""

    resource: str
    partition: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """Begin and end of every partition; each partition of ``end`` has a begin."""

    begin: Positions
    end: Positions
    tasks: int
    skipped: int = 0  # messages that expired before the query read them, since it began

    @property
    def ranges(self) -> list[ReadRange]:
        """The ranges to read, by topic and partition; none is empty."""
        found = [
            ReadRange(resource, partition, self.begin[resource][partition], end)
            for resource, ends in sorted(self.end.items())
            for partition, end in sorted(ends.items())
        ]
        return [span for span in found if span.rows > 0]

    def as_json(self) -> dict[str, Any]:
        """The offset for Spark."""
        return {
            "v": VERSION,
            "tasks": self.tasks,
            "skipped": self.skipped,
            "begin": _with_text_keys(self.begin),
            "end": _with_text_keys(self.end),
        }

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "BatchRange":
        """The batch of an offset. Raises: RequestError: it is damaged or of a later version."""
        if document.get("v") != VERSION:
            raise RequestError(
                f"the checkpoint has an offset of version {document.get('v')!r}; "
                f"this release reads version {VERSION}"
            )
        try:
            batch = cls(
                begin=_with_number_keys(document["begin"]),
                end=_with_number_keys(document["end"]),
                tasks=int(document["tasks"]),
                skipped=int(document["skipped"]),
            )
            batch.ranges  # noqa: B018 - each partition must have a begin
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise RequestError(f"the checkpoint has a damaged offset: {error!r}") from error
        return batch


def _with_text_keys(positions: Positions) -> dict[str, dict[str, int]]:
    return {
        resource: {str(partition): offset for partition, offset in sorted(offsets.items())}
        for resource, offsets in sorted(positions.items())
    }


def _with_number_keys(document: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        resource: {int(partition): int(offset) for partition, offset in offsets.items()}
        for resource, offsets in document.items()
    }
