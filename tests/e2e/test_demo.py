"""The README's first command, with fewer messages, and the tour of the official SDK."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import ROOT, SDK_PYTHON, sdk_environment
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.waiting import completed

READ = re.compile(r"consumed .*: ([0-9,]+) messages by (.+)")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path).start()
    yield running
    running.stop()


def run_demo(folder: Path, messages: int, *arguments: str) -> str:
    """A demo in a folder of its own, to its end; what it writes."""
    command = [str(TALOS), "demo", "--exit", "--data", str(folder / "demo")]
    command += ["--messages", str(messages)]
    done = completed([*command, *arguments], cwd=folder, env=sdk_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "The server is running at http://127.0.0.1:" in done.stdout
    assert f"{messages} / {messages}" in done.stdout
    assert "lag of group 'demo': 0" in done.stdout
    assert "messages/s" in done.stdout
    return done.stdout


def test_both_clients_share_the_group_and_read_everything(tmp_path: Path) -> None:
    second = ROOT / "examples" / "official_reader.py"
    shown = run_demo(tmp_path, 5_000, "--sdk-python", str(SDK_PYTHON), "--second", str(second))
    assert "two workers with 4 partitions each" in shown
    read = {name: int(count.replace(",", "")) for count, name in READ.findall(shown)}
    assert sum(read.values()) == 5_000
    # Blocks have 1 MiB and take turns, so that five partitions of eight have messages.
    assert min(read["opentalos.sdk"], read["official SDK"]) > 0
    holders = [line.split()[-2:] for line in shown.splitlines() if "   0   " in line]
    assert (
        sorted(" ".join(holder[-1:]) for holder in holders) == ["SDK"] * 4 + ["opentalos.sdk"] * 4
    )


def test_it_runs_without_the_official_sdk_and_again_on_its_data(tmp_path: Path) -> None:
    for _ in range(2):
        shown = run_demo(tmp_path, 500)
        assert "no second client" in shown


def test_a_server_that_does_not_start_is_one_error_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [str(TALOS), "demo", "--exit", "--listen", address]
        done = completed([*command, "--data", str(tmp_path / "demo")], cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"cannot listen on {address}" in done.stderr


def test_the_tour_of_the_official_sdk_runs(server: ServerProcess) -> None:
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    tour = ROOT / "examples" / "tour.py"
    done = completed([SDK_PYTHON, tour, server.url, key, "500"], env=sdk_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "500 / 500" in done.stdout
    assert "lag of group 'tour': 0" in done.stdout
