"""What SQLite would silently ignore of its log: torn by a crash, or rotten."""

import random
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from opentalos.adapters.sqlite import log_cuts, open_sqlite_meta_store, write_ahead
from opentalos.adapters.sqlite.snapshot import copy_database
from opentalos.adapters.sqlite.write_ahead import Cut, Rot, check_log, judged
from opentalos.model.errors import CorruptLog

PAGE = 512
FRAME = 24 + PAGE
SECTOR = 512
FIRST, SECOND = (7, 11), (8, 0x8000_0001)  # salts of two uses of one file
Pair = tuple[int, int]


def checksum(seal: Pair, content: bytes, order: str) -> Pair:
    """As https://sqlite.org/fileformat2.html#checksum_algorithm says."""
    one, two = seal
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for at in range(0, len(words), 2):
        one = (one + words[at] + two) % 2**32
        two = (two + words[at + 1] + one) % 2**32
    return one, two


class Log:
    """Writes a log as SQLite does."""

    def __init__(self, salts: Pair = FIRST, order: str = "<", seed: int = 0) -> None:
        self.draw, self.salts, self.order = random.Random(seed), salts, order
        magic = 0x377F0682 + (order == ">")
        head = struct.pack(">6I", magic, 3007000, PAGE, 1, *salts)
        self.seal = checksum((0, 0), head, order)
        self.content = head + struct.pack(">2I", *self.seal)
        self.ends = [len(self.content)]  # of the header and of each transaction

    def transaction(self, *pages: int, size: int = 8) -> "Log":
        """One transaction of these pages; the last frame says so."""
        for page in pages[:-1]:
            self.frame(page, 0)
        self.frame(pages[-1], size)
        self.ends.append(len(self.content))
        return self

    def frame(self, page: int, size: int, content: bytes = b"") -> None:
        head = struct.pack(">2I", page, size)
        content = content or self.draw.randbytes(60) + bytes(PAGE - 60)
        self.seal = checksum(checksum(self.seal, head, self.order), content, self.order)
        self.content += head + struct.pack(">4I", *self.salts, *self.seal) + content


def verdict(content: bytes) -> Cut | Rot | None:
    def frames(count: int) -> Iterator[bytes]:
        return (content[at : at + count] for at in range(32, len(content), count))

    return judged(content[:32], frames)


def flipped(content: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)


def torn(before: bytes, after: bytes, start: int, draw: random.Random) -> bytes:
    """``after`` with any of its sectors behind ``start`` as they were before, and any size."""
    size = draw.choice((len(after), draw.randrange(start, len(after) + 1)))
    left = bytearray(after[:start])
    how = draw.randrange(3)
    lost = draw.randrange(start // SECTOR, len(after) // SECTOR + 1)
    for sector in range(start // SECTOR, len(after) // SECTOR + 1):
        lo, hi = max(start, sector * SECTOR), (sector + 1) * SECTOR
        new = (draw.random() < 0.5, sector < lost, sector != lost)[how]
        part = after[lo:hi] if new else before[lo:hi].ljust(len(after[lo:hi]), b"\0")
        left += part
    return bytes(left[: max(size, start)]) + before[len(left) :]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_whole_log_is_whole_also_with_frames_of_an_earlier_use_behind_it(order: str) -> None:
    former = Log(FIRST, order).transaction(1, 2, 3).transaction(1, 5).transaction(2, 3, 6)
    now = Log(SECOND, order, seed=1).transaction(1, 2).transaction(2)
    assert verdict(now.content) is None
    assert verdict(now.content + former.content[len(now.content) :]) is None
    assert verdict(now.content[:32] + former.content[32:]) is None  # nothing was written since
    assert verdict(now.content[:32]) is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_any_flipped_bit_before_the_last_transaction_is_rot(order: str) -> None:
    log = Log(order=order).transaction(1, 2).transaction(1, 4).transaction(2, 5, size=9)
    content = log.content + Log(FIRST[::-1], order, seed=1).transaction(1).content[32:]
    for position in range(log.ends[-2]):
        in_header = position < 32 or (position - 32) % FRAME < 24
        for bit in range(8) if in_header else (position % 8,) if not position % 5 else ():
            found = verdict(flipped(content, position, bit))
            assert isinstance(found, Rot), (position, bit)
            bad = 32 + (position - 32) // FRAME * FRAME if position >= 32 else 0
            assert found.position == bad, (position, bit)
            lost = sum(end > max(bad, 32) for end in log.ends)
            assert abs(found.transactions - lost) <= 1, (position, bit)


def test_a_sector_of_zeros_before_the_last_two_transactions_is_rot() -> None:
    log = Log().transaction(1, 2, 3).transaction(1, 4, 5).transaction(2, 4, 5).transaction(6)
    for start in range(0, log.ends[-3] - SECTOR, SECTOR):
        zeroed = log.content[:start] + bytes(SECTOR) + log.content[start + SECTOR :]
        assert isinstance(verdict(zeroed), Rot), start


@pytest.mark.parametrize("seed", range(200))
def test_what_a_power_loss_leaves_of_the_last_transaction_is_no_rot(seed: int) -> None:
    draw = random.Random(seed)

    def pages(most: int) -> list[int]:
        return sorted(draw.sample(range(1, 8), draw.randint(1, most)))

    former = Log(FIRST, seed=seed)
    for _ in range(draw.randint(0, 4)):
        former.transaction(*pages(4))
    log, left = Log(SECOND, seed=seed + 1), former.content
    for _ in range(draw.randint(0, 2)):
        log.transaction(*pages(3))
    left = log.content + left[len(log.content) :]
    for _ in range(3):  # each is torn; the next process writes over what is left of it
        last = Log(SECOND, seed=draw.random().__hash__())
        last.content, last.seal, start = log.content, log.seal, len(log.content)
        last.transaction(*pages(5))
        left = torn(left, last.content + left[len(last.content) :], start, draw)
        found = verdict(left)
        assert not isinstance(found, Rot)
        assert found is None or found.position == start or left[: len(last.content)] == last.content
        log.transaction(*pages(2))
        left = log.content + left[len(log.content) :]
        assert not isinstance(verdict(left), Rot)


def test_what_a_transaction_that_was_rolled_back_had_written_is_no_rot() -> None:
    log = Log().transaction(1, 2)
    spilled = Log(seed=1)
    spilled.content, spilled.seal = log.content, log.seal
    for page in range(1, 9):
        spilled.frame(page, 0)
    log.transaction(1, 3)
    assert verdict(log.content + spilled.content[len(log.content) :]) == Cut(log.ends[-1], 6)


def test_repeats_of_the_last_frame_are_of_the_same_transaction() -> None:
    log = Log().transaction(1, 2)
    log.frame(3, 0)
    page = log.draw.randbytes(PAGE)
    for _ in range(3):
        log.frame(4, 8, page)
    assert verdict(log.content) is None
    assert isinstance(verdict(flipped(log.content, log.ends[-1] + 100, 3)), Cut)


@pytest.mark.parametrize("left_bytes", [FRAME, FRAME + 24, 2 * FRAME, 3 * FRAME - 1])
def test_a_transaction_that_was_cut_short_is_left_out(left_bytes: int) -> None:
    log = Log().transaction(1, 2).transaction(1, 2, 3)
    start = log.ends[-2]
    frames = -(-left_bytes // FRAME)
    assert verdict(log.content[: start + left_bytes]) == Cut(start, frames)


def test_a_header_that_is_wrong_before_any_frame_is_nothing() -> None:
    assert verdict(bytes(32)) is None
    assert verdict(bytes(32 + 24 + PAGE)) == Rot(0, 0)


# --- files of SQLite ------------------------------------------------------------------------------


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """The database of a process that was killed: eight transactions are in its log."""
    live, path = tmp_path / "live" / "meta.sqlite", tmp_path / "meta.sqlite"
    store = await open_sqlite_meta_store(live)
    for number in range(8):
        await store.create(f"record/{number}", b"value")
    for suffix in ("", "-wal"):
        shutil.copy(f"{live}{suffix}", f"{path}{suffix}")
    await store.close()
    return path


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def contents(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), log_of(path).read_bytes()


def commits(log: bytes) -> list[int]:
    """Ends of the transactions of a log with SQLite's usual pages."""
    frame = 24 + 4096
    ends = range(32 + frame, len(log) + 1, frame)
    return [end for end in ends if int.from_bytes(log[end - frame + 4 : end - frame + 8])]


async def test_a_rotten_log_is_refused_by_name_and_left_as_it_is(killed: Path) -> None:
    log = log_of(killed)
    sound = log.read_bytes()
    assert len(commits(sound)) > 8
    former = commits(sound)[-6]
    log.write_bytes(flipped(sound, former + 2_000, 5))
    before = contents(killed)
    for _ in range(2):
        with pytest.raises(
            CorruptLog, match=rf"meta\.sqlite-wal .* position {former}: .* about 5 "
        ):
            await open_sqlite_meta_store(killed)
        with pytest.raises(CorruptLog, match=r"meta\.sqlite-wal"):
            copy_database(killed, killed.with_name("copy.sqlite"))
    assert contents(killed) == before
    log.write_bytes(sound)
    store = await open_sqlite_meta_store(killed)
    assert len(await store.children("record")) == 8
    await store.close()


async def test_a_torn_transaction_is_left_out_and_heard_once(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, counted = log_of(killed), log_cuts()
    sound = log.read_bytes()
    log.write_bytes(sound[:-1_000])
    store = await open_sqlite_meta_store(killed)
    assert len(await store.children("record")) == 7
    await store.close()
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("wal-tail-cut: ")] == [
        f"wal-tail-cut: {log}: {(len(sound) - commits(sound)[-2]) // 4120} frames from position "
        f"{commits(sound)[-2]} on are left out: a crash left a transaction incomplete, which was "
        "not acknowledged"
    ]
    assert log_cuts() == counted + 1
    await (await open_sqlite_meta_store(killed)).close()
    assert log_cuts() == counted + 1


async def test_a_log_that_changes_while_it_is_read_is_no_rot(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes the file; what looks like rot has gone when it is read again."""
    verdicts = iter([Rot(32, 1), Rot(4152, 1), None])
    monkeypatch.setattr(write_ahead, "_read", lambda _log: next(verdicts))
    assert check_log(killed) is None


def test_the_log_of_a_real_database_that_is_written_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "any.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA synchronous = OFF")
    writer.execute("CREATE TABLE numbers (number)")
    for number in range(1_500):  # the log begins again
        writer.execute("INSERT INTO numbers VALUES (?)", (number,))
        if not number % 100:
            assert check_log(path) is None
    writer.close()
