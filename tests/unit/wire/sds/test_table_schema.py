"""A table's schema is the same on both sides of the wire."""

import pytest

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import ValidationFailed
from opentalos.model.table import (
    AppRight,
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
    TableSpec,
    TeamRight,
)
from opentalos.wire._generated import sds
from opentalos.wire.sds.table_schema import schema_from, schema_to, spec_from, spec_to

SCHEMA = TableSchema(
    group=(KeyPart("user"),),
    primary=(KeyPart("at", ascending=False), KeyPart("id")),
    hashed=True,
    attributes={"user": DataType.STRING, "at": DataType.INT64, "tags": DataType.STRING_SET},
    indexes={
        "by-tag": LocalIndex(
            columns=(KeyPart("tags"),), projections=("at",), mode=IndexMode.EAGER, unique=True
        )
    },
    streams={"changes": StreamSpec(view=StreamView.RECORD_IMAGE, attributes=("tags",))},
    ttl_s=60,
    shards=4,
    version=7,
)


def test_a_schema_round_trips() -> None:
    assert schema_from(schema_to(SCHEMA)) == SCHEMA
    plain = TableSchema(primary=(KeyPart("id"),), attributes={"id": DataType.INT64})
    assert schema_from(schema_to(plain)) == plain


def test_the_decision_of_the_owner_round_trips() -> None:
    spec = TableSpec(
        schema=SCHEMA,
        description="d",
        read_capacity=10,
        write_capacity=None,
        app_acl={"app": (AppRight.APP_SECRET_READ,)},
        team_acl={"team": (TeamRight.ADMIN, TeamRight.READ)},
        quota_bytes=1 << 30,
    )
    assert spec_from(spec_to(spec)) == spec
    assert spec_from(spec_to(TableSpec(schema=SCHEMA))) == TableSpec(schema=SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        sds.TableSpec(),
        sds.TableSpec(schema=sds.TableSchema(primaryIndex=[sds.KeySpec()])),
        sds.TableSpec(schema=sds.TableSchema(attributes={"a": 77})),
        sds.TableSpec(schema=sds.TableSchema(streams={"t": sds.StreamSpec(viewType=9)})),
        sds.TableSpec(schema=sds.TableSchema(), metadata=sds.TableMetadata(acl={"t": [9]})),
    ],
)
def test_what_is_missing_or_unknown_is_refused(wrong: sds.TableSpec) -> None:
    with pytest.raises(ValidationFailed):
        spec_from(wrong)
