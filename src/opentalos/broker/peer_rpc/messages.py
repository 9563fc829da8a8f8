"""Requests and replies of the calls between servers; ``calls.py`` lists which belongs to which.

Each type is declared once and is its own JSON form. Compatibility between versions follows three
rules: a field is never renamed or given another meaning, a receiver ignores fields that it does not
know, and a field added later has a default that means what its absence meant before.
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Final, cast

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from opentalos.broker.cluster.control.publication import Move
from opentalos.broker.figures.metrics import By
from opentalos.broker.figures.rollup import Label, Question, Series
from opentalos.log.results import PartitionStats
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.limits import PARTITIONS_MAX
from opentalos.model.message import OffsetRange, ProducerStamp, StoredBlock
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.sds.cell_format import ABSENT
from opentalos.sds.mutation import Applied
from opentalos.wire.peer_errors import error_document, error_of

_BYTES_TYPES: Final = frozenset({DataType.BINARY, DataType.RAWBINARY})
_FLOAT_TYPES: Final = frozenset({DataType.FLOAT, DataType.DOUBLE})
_FLOAT_SETS: Final = frozenset({DataType.FLOAT_SET, DataType.DOUBLE_SET})

Text = str | UnsetType
Natural = Annotated[int, Meta(ge=0)]
ByPartition = Meta(max_length=PARTITIONS_MAX)


class Empty(Struct, frozen=True):
    """A request or reply without fields."""


class ErrorFields(Struct, frozen=True, kw_only=True):
    """The fields of an error inside a reply that has other results as well."""

    error: Text = UNSET
    text: Text = UNSET
    branch: Text = UNSET
    address: Text = UNSET
    topic_uuid: Text = UNSET

    def failure(self, otherwise: type[TalosError]) -> TalosError | None:
        """The error, if these are the fields of one. ``otherwise``: for a name not known here."""
        if self.error is UNSET:
            return None
        fields = {name: getattr(self, name) for name in ErrorFields.__struct_fields__}
        return error_of(
            {name: value for name, value in fields.items() if value is not UNSET}, otherwise
        )


# --- logs ---------------------------------------------------------------------------------------


class Wanted(Enum):
    """What is asked of each partition."""

    OFFSETS = "offsets"  # confirmed against the manifest
    STATE = "state"  # offsets and amounts
    AMOUNTS = "amounts"  # amounts; offsets as the server remembers them
    TIMES = "times"  # the first offset stored at or after a time


class PartitionsRequest(Struct, frozen=True):
    """Facts about partitions of a topic. ``times``: Unix milliseconds, one for each partition."""

    topic: str  # resource name
    partitions: Annotated[list[Natural], ByPartition]
    wanted: Wanted
    times: Annotated[list[int], ByPartition]

    def __post_init__(self) -> None:
        if len(self.partitions) != len(self.times):
            raise ValueError("each partition needs a time")


class PartitionAnswer(ErrorFields, frozen=True, kw_only=True):
    """Facts about one partition, or its error; with both, the log is damaged after its offsets."""

    partition: int
    offsets: OffsetRange | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    stats: PartitionStats | UnsetType | None = UNSET
    found: int | UnsetType = UNSET  # the offset of the requested time

    def __post_init__(self) -> None:
        if self.error is UNSET and (self.offsets is UNSET or self.epoch is UNSET):
            raise ValueError("a partition needs offsets and epoch, or an error")


class PartitionsReply(Struct, frozen=True):
    """Facts about the partitions, in any order."""

    partitions: list[PartitionAnswer]


class MessagesRequest(Struct, frozen=True):
    """A read of one partition; the caller has authorised the client."""

    resource: str
    partition: int
    offset: int
    messages_max: int
    bytes_max: int
    deadline_ms: int = 0


class BlockMessage(Struct, frozen=True):
    """A stored block."""

    base_offset: int
    messages: int
    append_ms: int
    create_ms: int
    compression: int
    format: int
    payload: bytes
    extras: bytes = b""

    @classmethod
    def of(cls, block: StoredBlock) -> "BlockMessage":
        """As servers send it."""
        return cls(*cast(Any, block))  # a memoryview is encoded as bytes are

    def block(self) -> StoredBlock:
        """The block."""
        return StoredBlock(*(getattr(self, name) for name in StoredBlock._fields))


class MessagesReply(Struct, frozen=True):
    """Contiguous blocks. ``unhandled``: messages after the last of them; -1: not known."""

    blocks: list[BlockMessage]
    unhandled: int


class SystemPutRequest(Struct, frozen=True):
    """Messages for a partition of one of the service's own topics."""

    topic: str  # name
    partition: int
    key: str
    messages: list[bytes]


class StreamPutRequest(Struct, frozen=True):
    """A block of an idempotent producer; without messages it announces the stamp's epoch."""

    topic: str  # resource name
    partition: int
    payload: bytes
    messages: int
    compression: int
    create_ms: int
    producer: ProducerStamp


class StreamPutReply(Struct, frozen=True):
    """Where the block is stored."""

    offset: int


# --- tables -------------------------------------------------------------------------------------


class DatumMessage(Struct, frozen=True, array_like=True):
    """A value with its type, as an array of two; bytes are Base64.

    Floats that JSON has no number for are raw text, as the standard library writes them.
    """

    type: DataType
    value: Any

    def __post_init__(self) -> None:
        value = self.value
        if self.type in _BYTES_TYPES and isinstance(value, str):
            value = base64.b64decode(value, validate=True)
        elif isinstance(value, list):
            if self.type is DataType.BINARY_SET:
                value = [base64.b64decode(element, validate=True) for element in value]
            value = tuple(value)
        if self.type in _FLOAT_TYPES:
            value = _number(value)
        elif self.type in _FLOAT_SETS and value is not None:
            value = tuple(map(_number, value))
        force_setattr(self, "value", value)

    def datum(self) -> Datum:
        """The value as tables have it."""
        value = self.value
        if self.type in _FLOAT_TYPES:
            value = _float(value)
        elif self.type in _FLOAT_SETS and value is not None:
            value = tuple(map(_float, value))
        return Datum(self.type, value)


def _number(value: Any) -> Any:
    """A float as msgspec writes it: it would write null for one that is not finite."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return Raw(json.dumps(value).encode())


def _float(value: Any) -> Any:
    return float(bytes(value)) if isinstance(value, Raw) else value


ColumnsMessage = Mapping[str, DatumMessage]


class ConditionMessage(Struct, frozen=True):
    """What must hold of the row before the mutation."""

    operator: ConditionOperator | None
    field: str
    value: DatumMessage | None
    row_exists: bool | None


class MutationMessage(Struct, frozen=True, omit_defaults=True):
    """A change of one row."""

    operation: Operation
    key: ColumnsMessage
    columns: ColumnsMessage
    attributes: Sequence[str]
    condition: ConditionMessage | None = None

    @classmethod
    def of(cls, mutation: Mutation) -> "MutationMessage":
        """As servers send it."""
        condition = mutation.condition
        shown = None
        if condition is not None:
            value = None if condition.value is None else DatumMessage(*condition.value)
            shown = ConditionMessage(
                condition.operator, condition.field, value, condition.row_exists
            )
        key, columns = columns_message(mutation.key), columns_message(mutation.columns)
        return cls(mutation.operation, key, columns, mutation.attributes, shown)

    def mutation(self) -> Mutation:
        """Inverse of ``of``."""
        shown, condition = self.condition, None
        if shown is not None:
            value = None if shown.value is None else shown.value.datum()
            condition = Condition(shown.operator, shown.field, value, shown.row_exists)
        return Mutation(
            self.operation,
            columns_of(self.key),
            columns_of(self.columns),
            tuple(self.attributes),
            condition,
        )


TableName = tuple[str, str, str]  # uuid, owner, name


class MutationsRequest(Struct, frozen=True):
    """Mutations of rows that the other server owns."""

    table: TableName
    mutations: list[MutationMessage]


class OutcomeMessage(ErrorFields, frozen=True, kw_only=True):
    """What became of one mutation: applied, or its error."""

    success: bool | UnsetType = UNSET
    amounts: ColumnsMessage | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.error is UNSET and (self.success is UNSET or self.amounts is UNSET):
            raise ValueError("an outcome needs success and amounts, or an error")

    @classmethod
    def of(cls, outcome: Applied | TalosError) -> "OutcomeMessage":
        """As servers send it."""
        if isinstance(outcome, TalosError):
            return cls(**error_document(outcome))
        return cls(success=outcome.success, amounts=columns_message(outcome.amounts))

    def outcome(self) -> Applied | TalosError:
        """The outcome; what was applied comes without the row."""
        failure = self.failure(OutcomeUnknown)
        if failure is not None:
            return failure
        amounts = {} if self.amounts is UNSET else columns_of(self.amounts)
        return Applied(self.success is True, amounts, {}, ABSENT, None)


class MutationsReply(Struct, frozen=True):
    """One outcome for each mutation, in order."""

    outcomes: list[OutcomeMessage]


class MarkRequest(Struct, frozen=True, rename={"shard": "slice"}):
    """How far a table shard has published a stream."""

    table: TableName
    shard: int
    stream: int


class MarkReply(Struct, frozen=True):
    """Every change up to this time is in the topic."""

    mark_ms: int


class TableChangedRequest(Struct, frozen=True):
    """The record of a table has changed: reply once this server works by it."""

    table: TableName


def columns_message(columns: Columns) -> ColumnsMessage:
    """Columns as servers send them."""
    return {name: DatumMessage(*datum) for name, datum in columns.items()}


def columns_of(message: ColumnsMessage) -> Columns:
    """Inverse of ``columns_message``."""
    return {name: shown.datum() for name, shown in message.items()}


# --- cluster ------------------------------------------------------------------------------------


class StatusReply(Struct, frozen=True, omit_defaults=True):
    """A server's counters and, from the leader, recent moves."""

    counters: Mapping[str, int]
    recent: Sequence[Move] = ()


# --- series -------------------------------------------------------------------------------------


class SeriesQuestion(Struct, frozen=True, kw_only=True):
    """Series of what the other server measured; the asking one has authorised the caller.

    ``sample_ms``: between samples, since intervals are counted in it. ``labels``: which series have
    values of their own; None: every one. ``totals``: only amounts of the whole time by label.
    """

    metric: str
    by: By
    level: Natural
    first: Natural
    count: Annotated[int, Meta(ge=1, le=2_000)]
    step: Annotated[int, Meta(ge=1, le=100_000)]
    sample_ms: int
    topics: frozenset[str] | None
    shared: frozenset[str]
    tenant: str
    group: str
    labels: list[Label] | None
    totals: bool

    @classmethod
    def of(
        cls, question: Question, sample_ms: int, labels: frozenset[Label] | None, *, totals: bool
    ) -> "SeriesQuestion":
        """As servers send it."""
        fields = {name: getattr(question, name) for name in Question.__slots__}
        listed = None if labels is None else sorted(labels)
        return cls(**fields, sample_ms=sample_ms, labels=listed, totals=totals)

    def question(self) -> Question:
        """Inverse of ``of``."""
        return Question(**{name: getattr(self, name) for name in Question.__slots__})


class SeriesAnswer(Struct, frozen=True, kw_only=True):
    """Values of one server, None where it does not know. ``since_ms``: its first; 0: none yet."""

    since_ms: int
    totals: list[tuple[str, int, str, float]] = []
    series: list[tuple[str, int, str, list[float | None]]] = []
    rest: list[float | None] | None = None
    notes: Sequence[str] = ()

    @classmethod
    def of_totals(cls, since_ms: int, totals: Mapping[Label, float]) -> "SeriesAnswer":
        """Amounts by label."""
        return cls(since_ms=since_ms, totals=[(*label, sum_) for label, sum_ in totals.items()])

    @classmethod
    def of(cls, since_ms: int, found: Series) -> "SeriesAnswer":
        """Values by label."""
        series = [(*label, values) for label, values in found.values.items()]
        return cls(since_ms=since_ms, series=series, rest=found.rest, notes=list(found.notes))


class HealthReply(Struct, frozen=True):
    """Alarms of a server: name, severity, text."""

    alarms: list[tuple[str, str, str]]
