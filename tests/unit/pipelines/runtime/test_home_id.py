"""What a home remembers: one id for all hosts, and the last lease of each pipeline."""

import os
import socket
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.runtime.home_id import LeaseNote, home_id


def test_all_who_ask_at_once_get_one_id(tmp_path: Path) -> None:
    found: list[str] = []
    home = tmp_path / "home"
    threads = [threading.Thread(target=lambda: found.append(home_id(home))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in home.iterdir()] == ["home.id"]
    assert home_id(tmp_path / "other") != found[0]


@pytest.mark.parametrize("text", ["", "0123", "z" * 16])
def test_a_damaged_id_is_not_replaced_silently(tmp_path: Path, text: str) -> None:
    (tmp_path / "home.id").write_text(text)
    with pytest.raises(ConfigError, match="must contain 16 hexadecimal digits"):
        home_id(tmp_path)


def test_a_note_comes_back_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    assert LeaseNote.read(tmp_path, "archive") is None
    note = LeaseNote.of_this_process(7)
    note.write(tmp_path, "archive")
    assert LeaseNote.read(tmp_path, "archive") == note
    for text in ("", "{}", "[]", '{"epoch": 1}'):
        (tmp_path / "checkpoints" / "archive.lease.json").write_text(text)
        assert LeaseNote.read(tmp_path, "archive") is None


def test_only_a_process_of_this_host_that_is_gone_has_ended() -> None:
    mine = LeaseNote.of_this_process(1)
    assert not mine.ended
    with subprocess.Popen(["true"]) as gone:
        pass
    assert replace(mine, pid=gone.pid).ended
    assert replace(mine, began=mine.began - 1).ended, "another process has its pid now"
    assert mine.host == socket.gethostname()
    assert not replace(mine, pid=gone.pid, host="elsewhere").ended
    assert mine.pid == os.getpid()


def test_a_killed_process_has_ended_before_its_parent_asks() -> None:
    mine = LeaseNote.of_this_process(1)
    with subprocess.Popen(["sleep", "60"]) as killed:
        began = psutil.Process(killed.pid).create_time()
        note = replace(mine, pid=killed.pid, began=began)
        assert not note.ended
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and not reaped
        assert psutil.Process(killed.pid).status() == psutil.STATUS_ZOMBIE
        assert note.ended
