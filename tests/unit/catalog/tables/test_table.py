"""Records of tables, and what grants on a table allow."""

import json
from dataclasses import replace

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT
from tests.unit.matrix import matrix

from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.tables.table import (
    StreamState,
    Table,
    dead_table,
    decode_table,
    encode_table,
    stopped_stream,
)
from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.identity import GUEST, Principal
from opentalos.model.table import (
    AppRight,
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
    TableState,
    TeamRight,
    WhenFull,
)
from opentalos.wire.record_crc import with_crc

SCHEMA = TableSchema(
    group=(KeyPart("user"),),
    primary=(KeyPart("at", ascending=False),),
    hashed=True,
    attributes={"user": DataType.STRING, "at": DataType.INT64, "tags": DataType.STRING_SET},
    indexes={
        "by_tags": LocalIndex(columns=(KeyPart("tags"),), projections=("at",), mode=IndexMode.EAGER)
    },
    streams={"t": StreamSpec(enabled=True, view=StreamView.RECORD_IMAGE, attributes=("tags",))},
    ttl_s=60,
    shards=4,
    version=3,
)
TABLE = Table(
    uuid="00ff",
    owner="alice",
    name="people",
    schema=SCHEMA,
    state=TableState.DISABLED,
    created_ms=5,
    altered_ms=6,
    description="d",
    read_capacity=7,
    quota_bytes=8,
    app_acl={"app": (AppRight.APP_SECRET_READ, AppRight.PUBLIC_WRITE)},
    team_acl={"CIblue": (TeamRight.ADMIN,)},
    streams={"t": StreamState(2, "aa", "alice", "t", 9, 10, "topic deleted")},
    next_stream_id=3,
    when_full=WhenFull.GAP,
)
# As it lies in data directories: it must stay readable.
RECORD = (
    b'{"altered_ms":6,"app_acl":{"app":["APP_SECRET_READ","PUBLIC_WRITE"]},"created_ms":5,'
    b'"description":"d","name":"people","next_stream_id":3,"owner":"alice","quota_bytes":8,'
    b'"read_capacity":7,"schema":{"attributes":{"at":"INT64","tags":"STRING_SET","user":"STRING"},'
    b'"group":[["user",true]],"hashed":true,"indexes":{"by_tags":{"columns":[["tags",true]],'
    b'"mode":"EAGER","projections":["at"],"unique":false}},"primary":[["at",false]],"slices":4,'
    b'"streams":{"t":{"attributes":["tags"],"enabled":true,"view":"RECORD_IMAGE"}},"ttl_s":60,'
    b'"version":3},"state":"DISABLED","streams":{"t":{"error":"topic deleted","gap_ms":10,"id":2,'
    b'"since_ms":9,"topic_name":"t","topic_owner":"alice","topic_uuid":"aa"}},'
    b'"team_acl":{"CIblue":["ADMIN"]},"uuid":"00ff","version":1,"when_full":"gap",'
    b'"write_capacity":null}'
)


def test_a_table_of_format_1_reads_and_is_written_so() -> None:
    assert decode_table(RECORD) == TABLE
    assert encode_table(TABLE) == with_crc(RECORD)  # which versions before it ignore


def test_a_newer_record_is_not_touched() -> None:
    record = {**json.loads(RECORD), "version": 2}
    with pytest.raises(NewerFormat):
        decode_table(json.dumps(record).encode())


@pytest.mark.parametrize(
    ("part", "value"),
    [("schema", None), ("state", "ODD"), ("streams", {"t": {}}), ("team_acl", {"x": ["ALL"]})],
)
def test_a_damaged_record_is_reported(part: str, value: object) -> None:
    for record in (b"[]", b"x", json.dumps({**json.loads(RECORD), part: value}).encode()):
        with pytest.raises(CorruptLog):
            decode_table(record)


def test_a_stream_stops_once_and_only_as_long_as_it_is_the_same() -> None:
    live = replace(TABLE, streams={"t": StreamState(2, "aa", "alice", "t", 9)})
    assert stopped_stream(live, "t", 2, 10, "topic deleted") == TABLE
    assert stopped_stream(TABLE, "t", 2, 11, "again") is TABLE
    assert stopped_stream(live, "t", 1, 10, "") is live
    assert stopped_stream(live, "other", 2, 10, "") is live
    older = stopped_stream(TABLE, "t", 2, 8)
    assert older.streams["t"] == TABLE.streams["t"]._replace(gap_ms=8)


def test_a_dropped_table_still_names_its_rows() -> None:
    dead = dead_table(TABLE)
    assert (dead.state, dead.uuid) == (TableState.DELETING, TABLE.uuid)
    assert dead.schema == SCHEMA
    assert (dead.app_acl, dead.team_acl, dead.streams) == ({}, {}, {})


def _granted(**rights: AppRight | TeamRight) -> Table:
    apps = {who: (right,) for who, right in rights.items() if isinstance(right, AppRight)}
    teams = {who: (right,) for who, right in rights.items() if isinstance(right, TeamRight)}
    return replace(TABLE, app_acl=apps, team_acl=teams)


@matrix(
    ("principal", "table", "mask"),
    [
        (ALICE, _granted(), 31),
        (ROOT, _granted(), 31),
        (BOB, _granted(), 0),
        (GUEST, _granted(), 0),
        (BOB, _granted(bob=AppRight.APP_SECRET_READ), 2 | 4),
        (BOB, _granted(bob=AppRight.APP_SECRET_WRITE), 1 | 4),
        (GUEST, _granted(guest=AppRight.APP_SECRET_READ), 0),
        (BOB, _granted(any=AppRight.PUBLIC_READ), 2 | 4),
        (GUEST, _granted(any=AppRight.PUBLIC_WRITE), 1 | 4),
        (BOB, _granted(CIblue=TeamRight.READ), 2 | 4),
        (BOB, _granted(CIblue=TeamRight.WRITE), 1 | 4),
        (BOB, _granted(CIblue=TeamRight.ADMIN), 31),
        (BOB, _granted(CIblue=TeamRight.QUOTA_ADMIN), 4),
        (BOB, _granted(CIblue=TeamRight.DESCRIBE_ADMIN), 4),
        (CAROL, _granted(CIblue=TeamRight.READ), 0),
        (DAVE, _granted(CLacme=TeamRight.READ), 2 | 4),
        (CAROL, replace(_granted(), owner="CLacme"), 31),
    ],
)
def test_what_grants_allow(principal: Principal, table: Table, mask: int) -> None:
    assert permissions_of(principal, table) == mask
