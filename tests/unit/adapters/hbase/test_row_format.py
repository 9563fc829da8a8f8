"""How a row lies in HBase, byte by byte, and where HBase is."""

import struct

import pytest

from opentalos.adapters.hbase.configuration import HbaseLocation, client_keys, parse_hbase_url
from opentalos.adapters.hbase.row_format import (
    Cell,
    decode_cell,
    encode_state,
    row_of,
    state_of,
)
from opentalos.adapters.row_rules import NEVER_WRITTEN, RowState
from opentalos.model.errors import ConfigError, CorruptLog
from opentalos.model.limits import HbaseLimits
from opentalos.ports.row_store import FamilyName, Row

DATA, PENDING = FamilyName.DATA, FamilyName.PENDING


def key_value(cell: Cell, timestamp: int = 1) -> bytes:
    """A cell in HBase's form, built from its documentation."""
    key = struct.pack(">H", len(cell.row)) + cell.row
    key += bytes([len(cell.family)]) + cell.family + cell.column
    key += struct.pack(">QB", timestamp, 4)  # 4: put
    return struct.pack(">II", len(key), len(cell.value)) + key + cell.value


@pytest.mark.parametrize(
    "cell",
    [
        Cell(b"row", b"d", b"v", b"value"),
        Cell(b"r", b"p", b"", b""),
        Cell(bytes(range(256)) * 10, b"d", bytes(range(256)), bytes(1000)),
    ],
)
def test_a_cell_is_read_from_hbases_form(cell: Cell) -> None:
    assert decode_cell(key_value(cell)) == cell


def test_the_state_cell_is_laid_out_as_documented() -> None:
    assert encode_state(258, deleted=False) == b"L\0\0\0\0\0\0\1\2"
    assert encode_state(1, deleted=True) == b"R\0\0\0\0\0\0\0\1"


def test_a_row_shows_one_family_and_hides_our_cells() -> None:
    cells = [
        Cell(b"k", b"d", b"ca", b"1"),
        Cell(b"k", b"d", b"c", b"empty column"),
        Cell(b"k", b"d", b"v", encode_state(7, deleted=False)),
        Cell(b"k", b"d", b"w", b"id"),
        Cell(b"k", b"p", b"cv", b"2"),
    ]
    assert row_of(cells, DATA) == Row(b"k", 7, {b"a": b"1", b"": b"empty column"})
    assert row_of(cells, PENDING) == Row(b"k", 7, {b"v": b"2"})
    assert state_of(cells) == RowState(7, b"id", False, {}, {})


def test_a_removed_row_and_none_at_all_are_absent() -> None:
    removed = [
        Cell(b"k", b"d", b"v", encode_state(8, deleted=True)),
        Cell(b"k", b"d", b"w", b"id"),
    ]
    assert row_of(removed, DATA) is None
    assert state_of(removed) == RowState(8, b"id", True, {}, {})
    assert row_of([], DATA) is None
    assert state_of([]) == NEVER_WRITTEN


def test_a_state_of_another_form_is_refused() -> None:
    with pytest.raises(CorruptLog):
        row_of([Cell(b"k", b"d", b"v", b"x")], DATA)


def test_the_url_names_zookeeper_and_a_namespace() -> None:
    assert parse_hbase_url("hbase://a:1,b/talos") == HbaseLocation("a:1,b:2181", "talos")


@pytest.mark.parametrize(
    "url", ["hbase://a:1", "hbase:///talos", "http://a/talos", "hbase://a/b/c", "hbase://u@a/talos"]
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="hbase://"):
        parse_hbase_url(url)


def test_the_client_never_repeats_and_two_tries_fit_into_a_call() -> None:
    keys = client_keys(HbaseLocation("a:1", "talos"), HbaseLimits(call_timeout_s=4.0))
    assert keys["hbase.client.retries.number"] == "0"
    assert keys["hbase.rpc.timeout"] == keys["hbase.client.operation.timeout"] == "2000"
