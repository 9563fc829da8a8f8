"""Schemas, values and mutations that tests of structured tables share."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from opentalos.model.datum import DataType, Datum
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import IndexMode, KeyPart, LocalIndex, TableSchema
from opentalos.sds.mutation import ABSENT, Applied, StoredRow, apply, check
from opentalos.sds.value_rules import INTEGER_BITS, KEY_TYPES, SET_OFFSET

LIMITS = SdsLimits()
NOW_MS = 1_700_000_000_000

# The same examples each time, however busy the machine is.
steady = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)

SCHEMA = TableSchema(
    group=(KeyPart("user"),),
    primary=(KeyPart("at"),),
    hashed=True,
    shards=4,
    attributes={
        "user": DataType.STRING,
        "at": DataType.INT64,
        "name": DataType.STRING,
        "age": DataType.INT32,
        "level": DataType.INT8,
        "score": DataType.DOUBLE,
        "photo": DataType.RAWBINARY,
        "tags": DataType.STRING_SET,
        "city": DataType.STRING,
        "code": DataType.INT64,
    },
    indexes={
        "by_city": LocalIndex(columns=(KeyPart("city", False),), mode=IndexMode.EAGER),
        "by_code": LocalIndex(columns=(KeyPart("code"),), mode=IndexMode.IMMUTABLE),
    },
    ttl_s=60,
)
KEY = {"user": Datum(DataType.STRING, "u1"), "at": Datum(DataType.INT64, 7)}


def datum(name: str, value: Any) -> Datum:
    return Datum(SCHEMA.attributes[name], value)


def columns(**values: Any) -> dict[str, Datum]:
    return {name: datum(name, value) for name, value in values.items()}


def put(condition: Condition | None = None, **values: Any) -> Mutation:
    return Mutation(Operation.PUT, KEY, columns(**values), condition=condition)


def increment(**amounts: Any) -> Mutation:
    return Mutation(Operation.INCREMENT, KEY, columns(**amounts))


def remove(*names: str, condition: Condition | None = None) -> Mutation:
    return Mutation(Operation.REMOVE, KEY, attributes=names, condition=condition)


def when(name: str, operator: ConditionOperator, value: Any) -> Condition:
    return Condition(operator, name, datum(name, value))


def done(row: StoredRow, mutation: Mutation, now_ms: int = NOW_MS) -> Applied:
    """A mutation as a server does it."""
    check(SCHEMA, mutation, LIMITS)
    return apply(SCHEMA, row, mutation, now_ms)


def stored(**values: Any) -> StoredRow:
    """A row after one put."""
    return done(ABSENT, put(**values)).row


text = st.text(st.characters(codec="utf-8"), max_size=6) | st.text("\x00\x01ab\xff", max_size=4)
binary = st.binary(max_size=6) | st.lists(
    st.sampled_from([b"\x00", b"\x01", b"\xfe", b"\xff"]), max_size=4
).map(b"".join)
number = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, -1.0])


def values(type_: DataType) -> st.SearchStrategy[Any]:
    if type_ in INTEGER_BITS:
        top = 1 << (INTEGER_BITS[type_] - 1)
        return st.integers(-top, top - 1) | st.integers(-2, 2)
    plain: dict[DataType, st.SearchStrategy[Any]] = {
        DataType.BOOL: st.booleans(),
        DataType.FLOAT: st.floats(width=32, allow_nan=False),
        DataType.DOUBLE: number,
        DataType.STRING: text,
        DataType.BINARY: binary,
        DataType.RAWBINARY: binary,
    }
    if type_ in plain:
        return plain[type_]
    element = values(DataType(type_ - SET_OFFSET))
    return st.lists(element, max_size=4).map(lambda found: tuple(sorted(set(found))))


def data(type_: DataType) -> st.SearchStrategy[Datum]:
    return values(type_).map(lambda value: Datum(type_, value))


@st.composite
def keyed(draw: st.DrawFn) -> TableSchema:
    """Schemas of any key, with a group that is hashed, or not, or without one."""
    count = draw(st.integers(1, 4))
    types = [draw(st.sampled_from(sorted(KEY_TYPES))) for _ in range(count)]
    parts = tuple(KeyPart(f"k{number}", draw(st.booleans())) for number in range(count))
    group = draw(st.integers(0, count - 1))
    hashed = group > 0 and draw(st.booleans())
    return TableSchema(
        group=parts[:group],
        primary=parts[group:],
        hashed=hashed,
        shards=draw(st.integers(1, 256)) if hashed else 1,
        attributes={part.attribute: type_ for part, type_ in zip(parts, types, strict=True)},
    )


def keys(schema: TableSchema) -> st.SearchStrategy[dict[str, Datum]]:
    return st.fixed_dictionaries(
        {name: data(schema.attributes[name]) for name in schema.key_columns}
    )
