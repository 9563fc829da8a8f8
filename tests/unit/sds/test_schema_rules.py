from dataclasses import replace
from typing import Any

import pytest
from tests.unit.matrix import matrix
from tests.unit.sds.bed import LIMITS, SCHEMA

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import NotSupported, SizeExceeded, TalosError, ValidationFailed
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import IndexMode, KeyPart, LocalIndex, StreamSpec, TableSchema
from opentalos.sds.schema_rules import check_change, check_schema

T = DataType
TYPES = SCHEMA.attributes


def with_index(**fields: Any) -> TableSchema:
    return replace(SCHEMA, indexes={"one": LocalIndex(**fields)})


def with_stream(**fields: Any) -> TableSchema:
    return replace(SCHEMA, streams={"topic": StreamSpec(**fields)})


def without(name: str, schema: TableSchema = SCHEMA) -> TableSchema:
    kept = {item: type_ for item, type_ in schema.attributes.items() if item != name}
    return replace(schema, attributes=kept)


def with_column(name: str, type_: DataType, schema: TableSchema = SCHEMA) -> TableSchema:
    return replace(schema, attributes={**schema.attributes, name: type_})


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        TableSchema(primary=(KeyPart("k"),), attributes={"k": T.BINARY}),
        replace(SCHEMA, hashed=False, shards=1, ttl_s=1),
        with_column("名 前.-", T.BINARY_SET),
        with_index(columns=(KeyPart("at", False), KeyPart("age")), projections=("name",)),
        with_stream(attributes=("name", "age")),
        with_stream(attributes=("at",)),
    ],
)
def test_a_good_schema_is_taken(schema: TableSchema) -> None:
    assert check_schema(schema, LIMITS) is None  # type: ignore[func-returns-value]


CITY = (KeyPart("city"),)


@matrix(
    ("schema", "wrong"),
    [
        (replace(SCHEMA, primary=()), "needs a primary key"),
        (replace(SCHEMA, primary=(KeyPart("x"),)), "the key: the schema has no column x"),
        (replace(SCHEMA, primary=(KeyPart("user"),)), "the key: column user is named twice"),
        (replace(SCHEMA, primary=(KeyPart("photo"),)), "column photo is of type RAWBINARY, need"),
        (replace(SCHEMA, primary=(KeyPart("tags"),)), "column tags is of type STRING_SET, need"),
        (replace(SCHEMA, group=(), indexes={}), "only an entity group can be hashed"),
        (replace(SCHEMA, hashed=False), "only hashed entity groups can be pre-split"),
        (replace(SCHEMA, shards=0), "0 shards: need 1 or more"),
        (replace(SCHEMA, ttl_s=0), "ttl of 0 s"),
        (replace(SCHEMA, ttl_s=-2), "ttl of -2 s"),
        (with_column("", T.BOOL), "column name ''"),
        (with_column("a" * 129, T.BOOL), "need 1 to 128 bytes"),
        (with_column("a`b", T.BOOL), "column name 'a`b'"),
        (with_column("a\nb", T.BOOL), "column name"),
        (with_column("\ud800", T.BOOL), "column name"),
        (replace(SCHEMA, indexes={"a b": LocalIndex(columns=CITY)}), "index name 'a b'"),
        (replace(SCHEMA, group=(), hashed=False, shards=1), "local indexes need an entity group"),
        (with_index(columns=()), "the index one has 0 columns"),
        (with_index(columns=(KeyPart("x"),)), "the index one: the schema has no column x"),
        (with_index(columns=CITY * 2), "the index one: column city is named twice"),
        (with_index(columns=CITY * 9), "the index one has 9 columns, need 1 to 8"),
        (with_index(columns=(KeyPart("tags"),)), "column tags is of type STRING_SET"),
        (with_index(columns=(KeyPart("user"),)), "column user is in the entity group"),
        (with_index(columns=(KeyPart("at"),)), "the index one is the beginning of the primary"),
        (with_index(columns=CITY, projections=("x",)), "the index one: the schema has no column x"),
        (with_stream(attributes=("x",)), "the stream to topic: the schema has no column x"),
        (with_stream(attributes=("age", "age")), "the stream to topic: column age is named twice"),
        (replace(SCHEMA, streams={"": StreamSpec()}), "a stream needs the name of a topic"),
    ],
)
def test_a_wrong_schema_is_refused(schema: TableSchema, wrong: str) -> None:
    with pytest.raises(ValidationFailed) as failure:
        check_schema(schema, LIMITS)
    assert wrong in str(failure.value)


def test_unique_indexes_are_not_supported() -> None:
    with pytest.raises(NotSupported, match="the index one: unique indexes"):
        check_schema(with_index(columns=CITY, unique=True), LIMITS)


def counted(**limits: Any) -> SdsLimits:
    return replace(LIMITS, **limits)


@pytest.mark.parametrize(
    ("schema", "limits", "wrong"),
    [
        (SCHEMA, counted(attributes_max=9), "10 columns in the schema, at most 9"),
        (SCHEMA, counted(indexes_max=1), "2 indexes in the schema, at most 1"),
        (SCHEMA, counted(shards_max=3), "4 shards in the schema, at most 3"),
        (with_stream(), counted(streams_max=0), "1 streams in the schema, at most 0"),
    ],
)
def test_too_much_of_something_is_refused(
    schema: TableSchema, limits: SdsLimits, wrong: str
) -> None:
    with pytest.raises(SizeExceeded) as failure:
        check_schema(schema, limits)
    assert str(failure.value) == wrong


STREAM = with_stream(attributes=("age",))
FULL_STREAM = with_stream()


@matrix(
    ("old", "new"),
    [
        (SCHEMA, SCHEMA),
        (SCHEMA, with_column("more", T.BOOL)),
        (SCHEMA, without("name")),
        (SCHEMA, with_column("name", T.INT8)),
        (SCHEMA, replace(SCHEMA, ttl_s=5)),
        (SCHEMA, replace(SCHEMA, indexes={})),
        (SCHEMA, without("city", replace(SCHEMA, indexes={}))),
        (SCHEMA, STREAM),
        (STREAM, SCHEMA),
        (STREAM, without("age")),
        (STREAM, without("name", STREAM)),
        (SCHEMA, without("name", FULL_STREAM)),
        (FULL_STREAM, without("name", with_stream(enabled=False))),
        (with_stream(enabled=False), without("name", FULL_STREAM)),
        (FULL_STREAM, STREAM),
        (FULL_STREAM, with_stream(enabled=False, view=StreamView.KEYS_ONLY)),
    ],
)
def test_a_good_change_is_taken(old: TableSchema, new: TableSchema) -> None:
    check_schema(new, LIMITS)
    assert check_change(old, new) is None  # type: ignore[func-returns-value]


CODE = {"by_code": SCHEMA.indexes["by_code"]}


@pytest.mark.parametrize(
    ("old", "new", "error", "wrong"),
    [
        (
            SCHEMA,
            replace(SCHEMA, primary=(KeyPart("at", False),)),
            ValidationFailed,
            "the primary key of a table cannot change",
        ),
        (
            SCHEMA,
            replace(SCHEMA, group=(KeyPart("name"),)),
            ValidationFailed,
            "the entity group of a table cannot change",
        ),
        (
            SCHEMA,
            replace(SCHEMA, hashed=False),
            ValidationFailed,
            "the hash of the entity group of a table cannot change",
        ),
        (
            SCHEMA,
            replace(SCHEMA, shards=8),
            ValidationFailed,
            "the number of shards of a table cannot change",
        ),
        (
            replace(SCHEMA, indexes=CODE),
            SCHEMA,
            NotSupported,
            "the index by_city: a table's indexes cannot be added or changed",
        ),
        (
            SCHEMA,
            replace(
                SCHEMA,
                indexes={**SCHEMA.indexes, "by_code": replace(CODE["by_code"], columns=CITY)},
            ),
            NotSupported,
            "the index by_code: a table's indexes cannot be added or changed",
        ),
        (
            SCHEMA,
            with_column("at", T.INT32),
            ValidationFailed,
            "column at cannot be of another type: the key has it",
        ),
        (
            SCHEMA,
            with_column("city", T.BINARY),
            ValidationFailed,
            "column city cannot be of another type: the index by_city has it",
        ),
        (
            STREAM,
            with_column("age", T.INT64, STREAM),
            ValidationFailed,
            "column age cannot be of another type: the stream to topic has it",
        ),
        (
            FULL_STREAM,
            without("name", FULL_STREAM),
            ValidationFailed,
            "column name cannot be removed: the stream to topic has it",
        ),
        (
            FULL_STREAM,
            with_stream(view=StreamView.RECORD_IMAGE),
            ValidationFailed,
            "the stream to topic cannot change its view while enabled",
        ),
    ],
)
def test_a_wrong_change_is_refused(
    old: TableSchema, new: TableSchema, error: type[TalosError], wrong: str
) -> None:
    with pytest.raises(error) as failure:
        check_change(old, new)
    assert str(failure.value) == wrong


def test_a_projected_column_stays() -> None:
    schema = with_index(columns=CITY, projections=("name",), mode=IndexMode.EAGER)
    with pytest.raises(ValidationFailed, match="the index one has it"):
        check_change(schema, with_column("name", T.INT8, schema))
