"""DescriptorWatch: notices that no descriptor is free, and that calls had to wait for one."""

import asyncio
import errno
import os

import pytest

from opentalos.server.measuring.descriptor_watch import DescriptorWatch

CHECKED_S = 1.5  # after one check


async def test_calls_that_found_none_are_one_line_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lacked = 0
    watch = DescriptorWatch(lambda: lacked)
    watch.start()
    await asyncio.sleep(CHECKED_S)
    assert not watch.recently()
    lacked = 7
    await asyncio.sleep(1.0)
    assert watch.recently()
    (line,) = caplog.messages
    assert "7 calls of the file store had to wait for one; " in line
    assert "ulimit -n" in line
    lacked = 9
    await asyncio.sleep(1.0)
    assert (watch.exhausted, len(caplog.messages)) == (2, 1)
    await asyncio.sleep(1.0)
    assert caplog.messages[1:] == ["descriptors are available again"]
    assert watch.recently()
    await asyncio.sleep(60.0)
    assert not watch.recently()
    assert watch.exhausted == 2
    watch.stop()


async def test_none_that_is_free_is_noticed_without_any_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    watch = DescriptorWatch()
    watch.start()
    with monkeypatch.context() as exhausted:
        exhausted.setattr(os, "open", full)
        await asyncio.sleep(CHECKED_S)
    assert watch.exhausted == 1
    assert "Too many open files" in caplog.text
    watch.stop()
