"""The manifest of a partition: which segments are its log, and who may write. Pure.

``ManifestStore`` reads and writes it. Promise I2: the record alone gives the right to write, and
every change is a compare-and-set of the one before.

Shape: one JSON object, UTF-8: version, epoch, owner, instance, change, start, deleted,
    state_of ([base offset, epoch] or null), and segments, oldest first, each
    [base offset, epoch, next offset or null while unsealed, bytes, last append ms].
    A segment whose file is not named after its base offset has the number in its name as a sixth
    field, in ``state_of`` as the third; one whose append times are wrong has ``counted_ms`` as a
    seventh. A record with such a segment has version 2, else 1.
    Optional: journal (the name of the one that may hold the end of the unsealed segment; such a
    record has version 3), late (that segment may have no file yet, and the journal all of it; such
    a record has version 4), end_state (the log's state at the end of the last sealed segment,
    base64), handed_over, cut, loss_epoch, loss_end, and metered ([offset below which all is
    metered, earliest append time of later messages, offset from which on nothing was left out]).
    The last member is a checksum (wire/record_crc.py); older servers write none.
    ``instance`` and ``change`` make every written value unique, so a read resolves the outcome
    of an unknown compare-and-set.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from opentalos.log.metering.meter import Mark
from opentalos.log.segment.format import segment_path
from opentalos.model.errors import CorruptLog, ManifestFull, NewerFormat
from opentalos.model.message import PartitionKey
from opentalos.wire.record_crc import CRC, checked, with_crc

_VERSION_WITHOUT_FLOOR = 4
MANIFEST_VERSION = 5
_VERSION_WITHOUT_LATE = 3
_VERSION_WITHOUT_JOURNAL = 2
_VERSION_WITHOUT_NUMBERS = 1  # so that a server of that version can read it
_ROW_FIELDS = 5  # without a number and ``counted_ms``
_NUMBERED = 3  # fields of a file's name with a number
MANIFEST_BYTES_MAX = 512 << 10  # bound of one MetaStore record
# Above so many segments a roll waits for a larger file, so that the record stays in its bound.
SEGMENTS_SOFT_MAX = 2_000
# Rows that are kept for recoveries: a log that was not closed cleanly can always be opened, sealed
# and read, and its segments be merged. Only a put to a sealed log is refused before.
SEGMENTS_RESERVE = 64
# With a state of so many bytes, some tens of producers, a planned move needs no side index.
END_STATE_BYTES_MAX = 4 << 10


class Segment(NamedTuple):
    """One segment as the manifest names it. ``bytes`` is its length once sealed."""

    base_offset: int
    epoch: int
    next_offset: int | None = None  # None: unsealed
    bytes: int = 0
    last_append_ms: int = 0
    number: int = 0  # in the file's name; 0: it is named after the base offset
    counted_ms: int = 0  # retention counts from here instead of ``last_append_ms``; 0: not

    @property
    def name(self) -> tuple[int, ...]:
        """What distinguishes its file from others of the partition."""
        name = (self.base_offset, self.epoch, self.number)
        return name if self.number else name[:2]

    @property
    def sealed(self) -> bool:
        """Whether the segment never changes again."""
        return self.next_offset is not None

    def path(self, key: PartitionKey) -> str:
        """Where the segment lies in the file store."""
        return segment_path(key.topic_uuid, key.partition, *self.name)


_WIDEST = Segment(*(10**18,) * 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Epoch, owner, segments and start offset of a partition; at most the last is unsealed."""

    epoch: int = 0
    owner: str = ""
    instance: str = ""  # token of the process that wrote it
    change: int = 0  # counts the changes by that process
    start: int = 0
    deleted: bool = False
    state_of: tuple[int, ...] | None = None  # with no segments: whose side index has the state
    segments: tuple[Segment, ...] = ()
    end_state: bytes = b""  # of the log while all is sealed; empty: ask the side index
    handed_over: bool = False  # sealed by a planned move, which closes the file afterwards
    # As of this record. Only segments below it may be dropped, or the next owner would count the
    # rest of a minute as the whole.
    metered: Mark | None = None
    journal: str = ""  # that may hold the end of the unsealed segment
    late: bool = False  # the unsealed segment may have no file yet
    floor: int = 0  # nothing below it is given to readers; its segments are dropped later
    # A loss of power may have taken flushed messages that groups had read: their positions prove
    # nothing of this log. None: unknown, since an earlier version wrote the record.
    cut: bool | None = False
    # An operator has accepted that the log lacks what files of epochs up to this one prove, and
    # that it ended at an offset.
    loss_epoch: int = 0
    loss_end: int = 0

    @property
    def unsealed(self) -> Segment | None:
        """The segment that may still grow."""
        return self.segments[-1] if self.segments and not self.segments[-1].sealed else None

    @property
    def first(self) -> int:
        """The first offset that readers get."""
        return max(self.start, self.floor)

    @property
    def sealed(self) -> tuple[Segment, ...]:
        """All segments that never change again."""
        return self.segments[:-1] if self.unsealed else self.segments

    @property
    def sealed_next(self) -> int:
        """Offset after the last sealed message; the start offset if nothing is sealed."""
        for segment in reversed(self.segments):
            if segment.next_offset is not None:
                return segment.next_offset
        return self.start

    def accepts_loss(self, epoch: int) -> bool:
        """Whether what a file of that epoch has beyond the log proves nothing any more."""
        return epoch <= self.loss_epoch

    def next_epoch(self, owner: str, instance: str) -> "Manifest":
        """The next epoch, owned by ``owner``."""
        return replace(self, epoch=self.epoch + 1, owner=owner, instance=instance)

    def with_last_sealed(self, sealed: Segment | None) -> "Manifest":
        """The last segment as ``sealed`` says; None: without it, since it holds no message."""
        if self.unsealed is None:
            return self
        former = self.segments[:-1]
        segments = former if sealed is None else (*former, sealed)
        return replace(self, segments=segments, journal="", late=False)

    def registered(self, segment: Segment, journal: str = "", *, late: bool = False) -> "Manifest":
        """A new unsealed segment at the end; the one before must be sealed."""
        if self.unsealed is not None:
            raise ValueError("at most one segment may be unsealed")
        return replace(
            self,
            segments=(*self.segments, segment),
            journal=journal,
            late=late,
            state_of=None,
            end_state=b"",
            handed_over=False,
        )

    def handed_off(self, end_state: bytes) -> "Manifest":
        """With all that the next owner needs to continue; the last segment was just sealed."""
        return replace(self, end_state=end_state, handed_over=True)

    def dropped(self, count: int) -> "Manifest":
        """Without the ``count`` oldest segments, all of them sealed; the start moves up."""
        gone, kept = self.segments[:count], self.segments[count:]
        if not gone:
            return self
        start = gone[-1].next_offset
        if start is None:
            raise ValueError("an unsealed segment cannot be dropped")
        state_of = self.state_of if kept else gone[-1].name
        return replace(self, segments=kept, start=start, state_of=state_of)

    def merged(self, run: tuple[Segment, ...], segment: Segment) -> "Manifest | None":
        """With ``segment`` instead of ``run``; None if it does not have that run any more."""
        first = next((at for at, row in enumerate(self.segments) if row == run[0]), -1)
        if first < 0 or self.segments[first : first + len(run)] != run:
            return None
        behind = self.segments[first + len(run) :]
        return replace(self, segments=(*self.segments[:first], segment, *behind))

    def check_room(self) -> None:
        """Raises: ManifestFull: a put must not add a segment, so that a recovery still can."""
        if len(self.segments) > SEGMENTS_SOFT_MAX:
            replace(self, segments=(*self.segments, *(_WIDEST,) * SEGMENTS_RESERVE)).encode()

    def recounted(self, counted: Mapping[int, int]) -> "Manifest":
        """With ``counted_ms`` of the segments with these base offsets."""
        segments = tuple(
            segment._replace(counted_ms=counted.get(segment.base_offset, segment.counted_ms))
            for segment in self.segments
        )
        return replace(self, segments=segments)

    def tombstone(self, instance: str) -> "Manifest":
        """The record of a partition that is being deleted: no former owner can change it."""
        return replace(self, epoch=self.epoch + 1, owner="", instance=instance, deleted=True)

    def encode(self) -> bytes:
        """The record's value. Raises: ManifestFull above the record's bound."""
        rows = [_row(segment) for segment in self.segments]
        numbered = any(len(row) > _ROW_FIELDS for row in rows)
        numbered = numbered or len(self.state_of or ()) == _NUMBERED
        fields: dict[str, Any] = {
            "version": _VERSION_WITHOUT_JOURNAL if numbered else _VERSION_WITHOUT_NUMBERS,
            "epoch": self.epoch,
            "owner": self.owner,
            "instance": self.instance,
            "change": self.change,
            "start": self.start,
            "deleted": self.deleted,
            "state_of": self.state_of,
            "segments": rows,
        }
        if self.journal:
            fields.update(version=_VERSION_WITHOUT_LATE, journal=self.journal)
        if self.late:
            fields.update(version=_VERSION_WITHOUT_FLOOR, late=True)
        if self.floor > self.start:
            fields.update(version=MANIFEST_VERSION, floor=self.floor)
        if self.cut is not False:
            fields["cut"] = self.cut
        if self.loss_epoch:
            fields.update(loss_epoch=self.loss_epoch, loss_end=self.loss_end)
        if self.end_state:
            fields["end_state"] = b64encode(self.end_state).decode()
        if self.handed_over:
            fields["handed_over"] = True
        if self.metered is not None:
            fields["metered"] = self.metered
        value = with_crc(json.dumps(fields, separators=(",", ":")).encode())
        if len(value) > MANIFEST_BYTES_MAX:
            raise ManifestFull(
                f"{len(self.segments)} segments do not fit into one manifest of at most "
                f"{MANIFEST_BYTES_MAX} bytes"
            )
        return value

    @classmethod
    def decode(cls, value: bytes) -> "Manifest":
        """Parse a record's value. Raises: CorruptLog, NewerFormat."""
        try:
            return _from_json(json.loads(checked(value)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptLog(f"manifest cannot be read: {error!r}") from error


def _row(segment: Segment) -> tuple[object, ...]:
    if segment.counted_ms:
        return segment
    return segment[:-1] if segment.number else segment[:_ROW_FIELDS]


def _from_json(fields: dict[str, Any]) -> Manifest:
    version = fields["version"]
    if version > MANIFEST_VERSION:
        raise NewerFormat(f"manifest version {version}, this server knows {MANIFEST_VERSION}")
    segments = tuple(Segment(*row) for row in fields["segments"])
    next_offset = fields["start"]
    for segment in segments:
        if segment.base_offset != next_offset:
            raise ValueError(f"segment at {segment.base_offset}, expected {next_offset}")
        if segment.next_offset is None and segment is not segments[-1]:
            raise ValueError(f"segment {segment.base_offset} before the last is unsealed")
        next_offset = segment.next_offset
    state_of, metered = fields["state_of"], fields.get("metered")
    return Manifest(
        epoch=fields["epoch"],
        owner=fields["owner"],
        instance=fields["instance"],
        change=fields["change"],
        start=fields["start"],
        deleted=fields["deleted"],
        state_of=tuple(state_of) if state_of else None,
        segments=segments,
        end_state=b64decode(fields.get("end_state", ""), validate=True),
        handed_over=fields.get("handed_over", False),
        journal=fields.get("journal", ""),
        late=fields.get("late", False),
        floor=fields.get("floor", 0),
        cut=fields.get("cut", False if CRC in fields else None),
        loss_epoch=fields.get("loss_epoch", 0),
        loss_end=fields.get("loss_end", 0),
        metered=Mark(*map(int, metered)) if metered else None,
    )
