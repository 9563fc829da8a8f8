"""The README's first command, with fewer messages, and the tour of the official SDK."""

import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.compat.conftest import ROOT, SDK_PYTHON, sdk_environment
from tests.process_state import runs
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.waiting import completed, ended, eventually

LIVE = "opentalos.cli.demo.live"
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


@dataclass
class Running:
    """A demo in a terminal of its own, after its tour; ``processes`` is all that it consists of."""

    demo: "subprocess.Popen[bytes]"
    terminal: int
    processes: list[psutil.Process]

    def close_terminal(self) -> None:
        """As a window is closed."""
        os.close(self.terminal)
        self.terminal = -1


@contextmanager
def keeps_running(command: Sequence[str | Path], folder: Path) -> Iterator[Running]:
    """The demo that a command runs; nothing of it is left at the end."""
    ours, its = pty.openpty()
    demo = subprocess.Popen(
        command, cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(its)
    running = Running(demo, ours, [psutil.Process(demo.pid)])
    try:
        said = b""
        while b"The server keeps running" not in said:
            said += os.read(ours, 4096)
        eventually("server and traffic run", lambda: {"serve", LIVE} <= words(demo.pid))
        running.processes += running.processes[0].children(recursive=True)
        yield running
    finally:
        for process in filter(runs, running.processes):
            process.kill()
        ended(demo)
        if running.terminal >= 0:
            running.close_terminal()


def words(pid: int) -> set[str]:
    """Of the command lines of what a process started."""
    found = psutil.Process(pid).children(recursive=True)
    return {word for process in found if runs(process) for word in process.cmdline()}


@pytest.mark.parametrize("made", [False, True], ids=["talos", "make"])
@pytest.mark.parametrize("way", ["SIGTERM", "SIGHUP", "SIGKILL", "terminal"])
def test_whatever_ends_the_demo_ends_all_of_it(way: str, made: bool, tmp_path: Path) -> None:
    command: list[str | Path] = [TALOS, "demo", "--messages", "100"]
    if made:
        command = ["make", "-f", ROOT / "Makefile", "demo", "PYTHON=true", f"PY={sys.executable}"]
    with keeps_running(command, tmp_path) as running:
        assert len(running.processes) >= 3 + made
        if way == "terminal":
            running.close_terminal()
        elif way == "SIGHUP":  # as a shell that exits: make passes on SIGTERM alone
            os.killpg(running.demo.pid, signal.SIGHUP)
        else:
            running.demo.send_signal(signal.Signals[way])
        ended(running.demo)
        eventually(
            "nothing of it runs",
            lambda: not any(map(runs, running.processes)),
            state=lambda: [process.cmdline() for process in running.processes if runs(process)],
        )


BENCH = """
import sys
from pathlib import Path
from bench.server import ServerProcess
with ServerProcess(Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


def test_a_server_of_a_benchmark_that_is_killed_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BENCH, str(tmp_path / "data")]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as bench:
        assert bench.stdout is not None
        server = psutil.Process(int(bench.stdout.readline()))
        bench.kill()
    eventually("its server ends", lambda: not runs(server))
