"""Progress, full disks, Ctrl-C, confirmations, usage errors."""

import io
import os
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.unit.matrix import matrix

from opentalos.cli.input.confirm import confirm
from opentalos.cli.input.interrupt import stopping
from opentalos.cli.main import talos
from opentalos.cli.output.progress import SHOW_AFTER_S, Progress
from opentalos.cli.output.sink import Sink


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_progress_appears_after_a_delay_and_is_cleared_at_the_end() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("files", 200, stream=stream, clock=clock) as progress:
        clock.now_s = SHOW_AFTER_S / 2
        progress.show(50)
        assert stream.getvalue() == ""
        clock.now_s = SHOW_AFTER_S
        progress.show(100)
        assert " 50 %  100 files, 50/s" in stream.getvalue()
        shown = stream.getvalue()
        progress.show(101)  # too soon after the last one
        assert stream.getvalue() == shown
    assert stream.getvalue().endswith("\r\033[K")


def test_progress_without_a_total_counts() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("messages", stream=stream, clock=clock) as progress:
        clock.now_s = 4.0
        progress.show(8_000)
        assert stream.getvalue() == "\r\033[K8,000 messages, 2,000/s"
        clock.now_s = 5.0
        progress.show(10_000, 20_000)
        assert " 50 %  10,000" in stream.getvalue()


def test_progress_needs_a_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress("files", stream=stream, clock=clock) as progress:
        clock.now_s = 60.0
        progress.show(1)
    assert stream.getvalue() == ""


def test_a_file_keeps_whole_messages_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    room = 25

    def write(file: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        done = real(file, data[:room])
        room -= done
        return done

    with (tmp_path / "out").open("wb") as stream:
        stream.write(b"head\n")
        sink = Sink(stream)
        monkeypatch.setattr("os.write", write)
        sink.write([b"0123456789\n"])
        with pytest.raises(OSError, match="No space left"):
            sink.write([b"0123456789\n", b"0123456789\n"])
        assert sink.messages == 1
        monkeypatch.undo()
        sink.write([b"more\n"])
    assert (tmp_path / "out").read_bytes() == b"head\n0123456789\nmore\n"


def test_the_first_ctrl_c_is_recorded_and_the_second_one_interrupts() -> None:
    with stopping() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):  # the second one is in earnest
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_interrupts_a_wait_immediately() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stopping() as stop:
        with pytest.raises(KeyboardInterrupt), stop.waiting():
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), stop.waiting():
            raise AssertionError("not reached")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_question_without_a_terminal_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(click.UsageError, match="pass --yes"):
        confirm("Delete it?", False)
    confirm("Delete it?", True)


def test_a_user_on_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(click.Abort):
        confirm("Delete it?", False)
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    confirm("Delete it?", False)


@matrix(
    ("arguments", "says"),
    [
        (["produce", "t", "--format", "json", "--key-separator", ":"], "JSON lines have keys"),
        (["produce", "t", "--key-separator", ""], "must not be empty"),
        (["produce", "t", "--partition", "1", "--idempotent", "yes"], "cannot be combined with"),
        (["consume", "t", "--group", "g", "--partition", "1"], "cannot be combined with --group"),
        (["consume", "t", "--output", "%z"], "unknown format"),
        (["consume", "t", "--from", "yesterday"], "is not a valid time"),
        (["group", "reset", "t", "g"], "pass either --to or --from-file"),
        (["group", "reset", "t", "g", "--from-file", "f", "--partition", "1"], "requires --to"),
        (["profile", "add", "p", "--url", "http://a:1"], "not a terminal"),
        (["topic", "alter", "t"], "nothing to change"),
        (["topic", "create", "t", "--attribute", "x"], "is not KEY=VALUE"),
        (["quota", "set", "--topic", "t"], "at least one limit"),
        (["quota", "set", "--topic", "t", "--user", "u"], "pass either --topic or --user"),
        (["quota", "set", "--topic", "t", "--topics", "3"], "--topics requires --user"),
        (["acl", "grant", "t", "g", "all"], "is not one of"),
        (["bench", "--seconds", "0"], "not in the range"),
        (["completion", "tcsh"], "is not one of"),
    ],
)
def test_a_usage_error_exits_with_2_and_names_the_reason(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(talos, arguments)
    assert (done.exit_code, done.output.count("Traceback")) == (2, 0)
    assert says in done.output
