"""Waits end with what they waited for, and only those that may be repeated count as such."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import waiting
from tests.results import only_waited
from tests.server_process import ServerProcess, troubles
from tests.waiting import (
    WaitEnded,
    answering,
    completed,
    eventually,
    eventually_async,
    stays,
    within_limit,
)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that hangs ends after its first look."""
    monkeypatch.setattr(waiting, "LIMIT_S", 0.0)


def test_a_wait_returns_what_came() -> None:
    found: Iterator[list[int]] = iter([[], [7]])
    assert eventually("a number comes", lambda: next(found)) == [7]


@pytest.mark.usefixtures("at_once")
def test_a_wait_that_hangs_says_for_what_and_what_is_there_instead() -> None:
    with pytest.raises(WaitEnded, match=r"a number comes; instead: 3"):
        eventually("a number comes", lambda: None, state=lambda: 3)


@pytest.mark.usefixtures("at_once")
async def test_so_does_one_in_a_loop_with_a_coroutine() -> None:
    async def nothing() -> bool:
        return False

    with pytest.raises(WaitEnded, match="a number comes"):
        await eventually_async("a number comes", nothing)
    with pytest.raises(WaitEnded, match="the future is set"):
        async with within_limit("the future is set"):
            await asyncio.get_running_loop().create_future()


def test_an_error_ends_a_wait_unless_it_means_not_yet() -> None:
    replies: Iterator[OSError | int] = iter([OSError("not yet"), 1])

    def call() -> int:
        reply = next(replies)
        if isinstance(reply, OSError):
            raise reply
        return reply

    assert eventually("it answers", answering(call, OSError)) == 1
    with pytest.raises(ZeroDivisionError):
        eventually("it answers", lambda: 1 // 0)


def test_what_does_not_stay_is_wrong_and_no_wait_that_ended() -> None:
    shown = iter([True, False])
    with pytest.raises(AssertionError, match="no longer: it is quiet") as caught:
        stays("it is quiet", lambda: next(shown))
    assert not only_waited(caught.value)


@pytest.mark.usefixtures("at_once")
def test_a_program_that_does_not_end_shows_what_it_said() -> None:
    with pytest.raises(WaitEnded, match="ends"):
        completed([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_only_waits_and_limits_may_be_repeated() -> None:
    ended = WaitEnded("not after 1 s: it settles")
    assert only_waited(ended)
    assert only_waited(subprocess.TimeoutExpired("talos", 1.0))
    assert only_waited(ExceptionGroup("both", [ended, ended]))
    assert not only_waited(ExceptionGroup("one is wrong", [ended, ValueError()]))
    assert not only_waited(AssertionError("1 == 2"))
    assert not only_waited(TimeoutError("of the product"))


@pytest.mark.parametrize("what", ["traceback", "exit"])
def test_a_server_in_trouble_is_named(tmp_path: Path, what: str) -> None:
    """Then no test is repeated, whatever it waited for."""
    crash = "import sys; sys.stdout.write('ready http://127.0.0.1:9\\n'); sys.stdout.flush(); "
    crash += "raise ValueError" if what == "traceback" else "sys.exit(3)"
    server = ServerProcess(tmp_path, launcher=(sys.executable, "-c", crash))
    server.start()
    process = server.process
    assert process is not None
    waiting.ended(process)
    said = server.trouble()
    assert f"status {1 if what == 'traceback' else 3}" in said
    assert ("printed a traceback" in said) == (what == "traceback")
    assert said in troubles()
    server.kill()
