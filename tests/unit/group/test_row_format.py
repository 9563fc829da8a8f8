import pytest

from opentalos.group.row_format import (
    GroupKey,
    GroupRow,
    PartitionRow,
    group_row_key,
    parse_row_key,
    partition_row_key,
    topic_range,
)
from opentalos.model.errors import CorruptLog, NewerFormat

KEY = GroupKey("u1", "g")


def test_rows_read_back() -> None:
    full = PartitionRow("w", 3, 41, 2, "10.0.0.1", metadata=b"note", server_assigns=True)
    for row in (PartitionRow("w", 3, 41, 2), full, PartitionRow()):
        assert PartitionRow.decode(row.cells()) == row
    cells = dict(full.cells())
    del cells[b"server_assigns"]
    assert not PartitionRow.decode(cells).server_assigns, "as earlier versions write it"
    group = GroupRow("CL#1", 17)
    assert GroupRow.decode(group.cells()) == group
    used = GroupRow("CL#1", 17, "s1", used_ms=18)
    assert GroupRow.decode(used.cells()) == used
    cells = dict(used.cells())
    del cells[b"used_ms"]
    assert GroupRow.decode(cells).used_ms is None, "as earlier versions write it"


def test_a_newer_row_is_refused_and_garbage_is_corrupt() -> None:
    cells = dict(PartitionRow().cells())
    with pytest.raises(NewerFormat):
        PartitionRow.decode({**cells, b"v": b"2"})
    with pytest.raises(CorruptLog):
        PartitionRow.decode({**cells, b"checkpoint": b"x"})
    with pytest.raises(CorruptLog):
        GroupRow.decode({b"v": b"1"})


def test_keys_of_a_topic_are_one_range_with_each_group_before_its_partitions() -> None:
    others = [GroupKey("u0", "g"), GroupKey("u2", "a")]
    keys = [KEY, GroupKey("u1", "g2")]
    rows = [
        make
        for key in keys
        for make in (group_row_key(key), partition_row_key(key, 0), partition_row_key(key, 255))
    ]
    start, stop = topic_range("u1")
    assert sorted(rows) == rows
    assert all(start <= row < stop for row in rows)
    assert not any(start <= group_row_key(key) < stop for key in others)


def test_keys_read_back() -> None:
    assert parse_row_key(group_row_key(KEY)) == (KEY, None)
    assert parse_row_key(partition_row_key(KEY, 300)) == (KEY, 300)
    for garbage in (b"", b"u1", b"u1\0g", b"u1\0g\0x", b"u1\0g\0p12", b"\xff\0g\0g"):
        with pytest.raises(CorruptLog):
            parse_row_key(garbage)


def test_rows_of_format_1_stay_readable() -> None:
    cells = {b"v": b"1", b"owner": b"w", b"generation": b"3", b"checkpoint": b"-1", b"epoch": b"2"}
    assert PartitionRow.decode(cells) == PartitionRow("w", 3, -1, 2)
    group = {b"v": b"1", b"tenant": b"CL#1", b"created_ms": b"17"}
    assert GroupRow.decode(group) == GroupRow("CL#1", 17)
    assert group_row_key(KEY) == b"u1\0g\0g"
    assert partition_row_key(KEY, 258) == b"u1\0g\0p\0\0\x01\x02"
