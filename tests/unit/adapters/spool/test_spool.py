"""The spool: order, room, torn and damaged files, and what a restart finds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.adapters.spool.spool import FILES, Spool
from opentalos.adapters.spool.spool_format import decode_line, encode_lines
from opentalos.model.errors import ConfigError

ROOM = 1 << 20
_OPEN: list[Spool] = []


def opened(folder: Path, bytes_max: int = ROOM) -> Spool:
    spool = Spool(folder, bytes_max)
    _OPEN.append(spool)
    spool.open()
    return spool


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def everything(spool: Spool, events_max: int = 100) -> list[bytes]:
    events: list[bytes] = []
    while batch := spool.read(1 << 20, events_max):
        events += batch.events
        spool.drop(batch)
    return events


def events(count: int, size: int = 20) -> list[bytes]:
    return [b"%06d" % number + b"x" * size for number in range(count)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.spool"))


@given(st.lists(st.binary(max_size=50).filter(lambda item: b"\n" not in item), max_size=20))
def test_lines_come_back(found: list[bytes]) -> None:
    lines = encode_lines(found).splitlines(keepends=True) if found else []
    # Python splits lines at other bytes as well.
    joined = b"".join(lines).split(b"\n")[:-1]
    assert [decode_line(line + b"\n") for line in joined] == found


@given(st.binary(max_size=50).filter(lambda item: b"\n" not in item), st.data())
def test_a_changed_line_is_reported(event: bytes, data: st.DataObject) -> None:
    line = bytearray(encode_lines([event]))
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= 1 << data.draw(st.integers(0, 7))
    assert decode_line(bytes(line)) is None


def test_an_event_of_two_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="one line"):
        encode_lines([b"a\nb"])


def test_events_come_in_order_and_leave_no_file(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    wanted = events(1_000, 200)
    for first in range(0, 1_000, 7):
        spool.append(wanted[first : first + 7])
    assert len(files(tmp_path)) > 1
    assert everything(spool, 13) == wanted
    assert spool.empty
    assert not files(tmp_path)


def test_what_is_read_stays_until_it_is_dropped(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(events(5))
    first = spool.read(ROOM, 2)
    assert first is not None
    assert first == spool.read(ROOM, 2)
    spool.drop(first)
    assert everything(spool) == events(5)[2:]


def test_a_batch_is_bounded_and_has_one_event_at_least(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(events(5, 94))
    batch = spool.read(250, 100)
    assert batch is not None
    assert len(batch.events) == 2
    batch = spool.read(1, 100)
    assert batch is not None
    assert len(batch.events) == 1


def test_a_restart_finds_what_was_left(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(events(100))
    batch = spool.read(ROOM, 30)
    assert batch is not None
    spool.drop(batch)
    spool.close()
    again = opened(tmp_path)
    again.append([b"new"])
    found = everything(again)
    # The place within a file is not kept: its events come once more, none is lost.
    assert found == [*events(100), b"new"]


def test_the_oldest_go_first_and_are_counted(tmp_path: Path) -> None:
    spool = opened(tmp_path, 64 << 10)
    wanted = events(2_000, 100)
    for event in wanted:
        spool.append([event])
    assert spool.bytes_count <= 64 << 10
    left = everything(spool)
    assert left == wanted[-len(left) :]
    assert spool.dropped + len(left) == 2_000
    assert len(left) > 2_000 * (64 << 10) / (2_000 * 117) * (FILES - 2) / FILES


def test_events_done_before_a_file_goes_are_not_counted_as_dropped(tmp_path: Path) -> None:
    spool = opened(tmp_path, 32 << 10)
    wanted = events(1_000, 100)
    spool.append(wanted[:10])
    batch = spool.read(ROOM, 4)
    assert batch is not None
    spool.drop(batch)
    for event in wanted[10:]:
        spool.append([event])
    assert 4 + spool.dropped + len(everything(spool)) == 1_000


def test_a_torn_end_costs_one_line(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(events(10))
    spool.close()
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    again = opened(tmp_path)
    again.append([b"new"])
    assert everything(again) == [*events(9), b"new"]
    assert again.corrupt == 1


def test_damage_in_the_middle_loses_only_the_damaged_records(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(events(10))
    spool.close()
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    again = opened(tmp_path)
    for _ in range(3):
        assert again.read(ROOM, 100) is not None  # reading again counts nothing twice
    assert len(everything(again)) == 9
    assert again.corrupt == 1


def test_a_file_of_nonsense_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000003.spool").write_bytes(b"\x00\xff" * 1_000 + b"\n\n")
    (tmp_path / "00000000000000000005.spool").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("not ours")
    spool = opened(tmp_path)
    spool.append(events(3))
    assert everything(spool) == events(3)
    assert spool.corrupt == 2
    assert (tmp_path / "notes.txt").exists()


def test_a_file_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(events(3))
    files(tmp_path)[0].unlink()
    spool.append([b"new"])
    assert everything(spool) == []
    assert spool.corrupt == 1
    spool.append([b"newer"])
    assert everything(spool) == [b"newer"]


def test_a_disk_that_takes_nothing_loses_counted_events(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    spool = opened(folder)
    folder.rename(tmp_path / "gone")
    spool.append(events(3))
    assert (spool.dropped, spool.empty) == (3, True)


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    with pytest.raises(ConfigError, match="in use"):
        opened(tmp_path)
    spool.close()
    opened(tmp_path)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot use"):
        opened(tmp_path / "file")
