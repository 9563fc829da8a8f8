"""What ``tests/faults/damages`` reads from files, and how it damages them."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.damages.choice import Damage, Kind, Target, apply, choose, kinds_for
from tests.faults.damages.contents import META, WAL, read_contents

from opentalos.log.journal.format import Kind as RecordKind
from opentalos.log.journal.format import encode_frame, record_header
from opentalos.log.segment.format import (
    BlockPlace,
    SegmentHeader,
    encode_block,
    end_mark_block,
    state_block,
)
from opentalos.log.segment.state_format import LogState
from opentalos.model.message import MessageBlock, PartitionKey

SEED = 0xA1B2C3D4
KEY = PartitionKey("uuid", 7)
SEGMENT = "uuid/7/00000000000000000010-1.log"


def block(base_offset: int, committed: int) -> bytes:
    """Two messages."""
    place = BlockPlace(SEED, committed, 9)
    return encode_block(MessageBlock(b"payload", 2), base_offset, place) + b"payload"


def header() -> bytes:
    return SegmentHeader(SEED, 1, 10, 5, 7).encode()


def state() -> bytes:
    return state_block(LogState().encode(), 10, BlockPlace(SEED, 10, 9))


def test_a_segment_proves_what_its_blocks_hold_and_its_end_mark_names() -> None:
    raw = header() + state() + block(10, 10) + block(12, 12)
    found = read_contents(f"log/{SEGMENT}", raw)
    assert (found.proven, found.base_offset, found.whole) == ({KEY: 14}, 10, True)
    cut = read_contents(f"log/{SEGMENT}", raw[: found.ends[-2]])
    assert (cut.proven, cut.whole) == ({KEY: 12}, True)
    torn = read_contents(f"log/{SEGMENT}", raw[:-1])
    assert (torn.proven, torn.whole) == ({KEY: 12}, False)
    lost = header() + state() + end_mark_block(10, BlockPlace(SEED, 10, 9))
    assert read_contents(f"log/{SEGMENT}", lost).proven == {KEY: 10}


@pytest.mark.parametrize("raw", [b"", header()[:-1], header()])
def test_a_file_without_its_beginning_is_not_whole(raw: bytes) -> None:
    assert not read_contents(f"log/{SEGMENT}", raw).whole


def test_a_journal_proves_what_its_groups_hold() -> None:
    named = [record_header(RecordKind.NAME, 1, 0, len(SEGMENT)), SEGMENT.encode()]
    groups = [block(10, 10), block(12, 12)]
    frames = [
        encode_frame(
            [*(named if number == 0 else ()), record_header(RecordKind.GROUP, 1, 0, len(group)),
             group], number, BlockPlace(SEED, 0, 9)
        )
        for number, group in enumerate(groups)
    ]  # fmt: skip
    raw = header() + b"".join(frames)
    found = read_contents("log/journal/name/00000001.jnl", raw)
    assert (found.proven, found.whole, len(found.ends)) == ({KEY: 14}, True, 3)
    cut = read_contents("log/journal/name/00000001.jnl", raw[: found.ends[1]])
    assert (cut.proven, cut.whole) == ({KEY: 12}, True)
    assert not read_contents("log/journal/name/00000001.jnl", raw[:-1]).whole
    assert read_contents("log/journal/name/00000001.jnl", header()).whole


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """One with three transactions in its WAL, of one page each or more."""
    path = tmp_path / META
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (value)")
        for value in range(2):
            connection.execute("INSERT INTO t VALUES (?)", (value,))
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in (META, META + WAL):
            shutil.copy(tmp_path / name, copy)
    return copy / META


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def test_a_wal_is_whole_behind_each_of_its_transactions(database: Path) -> None:
    wal = database.with_name(META + WAL)
    raw = wal.read_bytes()
    found = read_contents(META + WAL, raw)
    assert found.whole
    assert found.ends[-1] == len(raw)
    assert not read_contents(META + WAL, raw[: found.ends[-1] - 1]).whole
    before_last = raw[: found.ends[-2]]
    assert read_contents(META + WAL, before_last).whole
    wal.write_bytes(before_last)
    assert rows(database) == 1  # what SQLite makes of it


TARGETS = [
    Target("journal", "journal 0 00000001.jnl", ("j",), 100, (64, 80, 100), (0,)),
    Target("sealed segment", "a/0 00000.log", ("s",), 50, (50,)),
    Target("end of a journal", "journal 0 ended", ("e",)),  # empty in every copy
    Target("several files", "a/0", ("s", "j"), older=(1,)),
]


def test_a_seed_chooses_one_damage_and_seeds_choose_all_kinds() -> None:
    chosen = [choose(seed, TARGETS) for seed in range(200)]
    assert chosen == [choose(seed, TARGETS[::-1]) for seed in range(200)]
    assert {damage.kind for damage in chosen} == set(Kind)
    assert {damage.target.group for damage in chosen} == {
        "journal",
        "sealed segment",
        "several files",
    }
    assert all(damage.kind in kinds_for(damage.target) for damage in chosen)
    cuts = {damage.position for damage in chosen if damage.kind is Kind.CUT}
    assert {64, 80} & cuts
    assert all(0 < length < 100 for length in cuts)


def test_every_damage_changes_the_files(tmp_path: Path) -> None:
    copies = [tmp_path / "copy-0", tmp_path / "copy-1"]
    for folder in copies:
        folder.mkdir()
    (copies[0] / "j").write_bytes(b"older")
    for seed in range(50):
        data = tmp_path / f"data-{seed}"
        data.mkdir()
        before = {"j": b"j" * 100, "s": b"s" * 50, "e": b""}
        for name, content in before.items():
            (data / name).write_bytes(content)
        damage = choose(seed, TARGETS)
        apply(damage, data, copies)
        after = {path.name: path.read_bytes() for path in data.iterdir()}
        changed = {name for name in before if after.get(name) != before[name]}
        assert changed, damage
        assert changed <= set(damage.target.files), damage


def test_a_file_that_an_older_copy_lacks_is_removed(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    data.mkdir()
    copy.mkdir()
    (data / "s").write_bytes(b"new")
    apply(Damage(TARGETS[3], Kind.OLDER), data, [copy])
    assert list(data.iterdir()) == []
