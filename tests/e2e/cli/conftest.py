"""A real server, and the command in this process or as a separate one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import completed, eventually, limit_s

from opentalos.cli.main import main


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of --format json."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Commands:
    """Runs talos against a server, as a user with a home of their own."""

    folder: Path
    server: ServerProcess
    environment: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        known = {name: item for name, item in os.environ.items() if not name.startswith("TALOS_")}
        key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
        known |= {"HOME": str(self.folder), "TALOS_URL": self.server.url, "TALOS_KEY": key}
        return known | self.environment

    def __call__(self, *arguments: object, stdin: str | bytes = b"", status: int = 0) -> Ended:
        """Run to the end, by the entry point of the command in this process, which is quicker;
        stderr must have no stack trace."""
        runner = CliRunner(env={"TALOS_PROFILE": None, **self.variables()})
        command = [str(TALOS), *map(str, arguments)]
        with runner.isolation(input=stdin) as (out, err, _), pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr("sys.argv", command)
            with pytest.raises(SystemExit) as caught:
                main()
            ended = Ended(
                int(caught.value.code or 0),
                out.getvalue().decode(errors="replace"),
                err.getvalue().decode(),
            )
        assert ended.status == status, (arguments, ended)
        assert "Traceback" not in ended.err
        return ended

    def fails(self, *arguments: object, stdin: str = "") -> str:
        """Run what fails: status 1, nothing on stdout, one line on stderr, which is returned."""
        ended = self(*arguments, stdin=stdin, status=1)
        assert ended.out == ""
        assert ended.err.startswith("talos: ")
        assert ended.err.count("\n") == 1
        return ended.err.strip()

    def shell(self, line: str, status: int = 0) -> Ended:
        """Run a line of bash, with talos in its path."""
        path = f"{TALOS.parent}{os.pathsep}{os.environ['PATH']}"
        done = completed(
            ["bash", "-c", line],
            stdin=subprocess.DEVNULL,
            env={**self.variables(), "PATH": path},
            cwd=self.folder,
        )
        ended = Ended(done.returncode, done.stdout, done.stderr)
        assert ended.status == status, (line, ended)
        assert "Traceback" not in ended.err
        return ended

    def start(self, *arguments: object) -> "subprocess.Popen[bytes]":
        """A running process, with pipes."""
        return subprocess.Popen(
            [str(TALOS), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.variables(),
            cwd=self.folder,
        )

    def topic(self, name: str, partitions: int = 1) -> str:
        """A new topic."""
        self("topic", "create", name, "--partitions", partitions)
        return name

    def stored(self, topic: str) -> int:
        """Messages of a topic."""
        return sum(row["next"] for row in self("topic", "offsets", topic, "--format", "json").rows)

    def wait_for(self, topic: str, messages: int) -> None:
        """Until so many are stored."""
        eventually(
            f"{topic} has {messages} messages",
            lambda: self.stored(topic) >= messages,
            state=lambda: self.stored(topic),
        )


def interrupted(process: "subprocess.Popen[bytes]") -> Ended:
    """Ctrl-C to a process that runs; its end."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=limit_s())
    assert b"Traceback" not in err
    return Ended(process.returncode, out.decode(), err.decode().strip())


@pytest.fixture
def cli_server(servers: SharedServers) -> ServerProcess:
    return servers.get()


@pytest.fixture
def talos(tmp_path: Path, cli_server: ServerProcess) -> Commands:
    assert sys.platform != "win32", "bash and signals"
    return Commands(tmp_path, cli_server)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Commands]:
    """The command with a server that the test may stop."""
    folder = tmp_path / "own"
    server = ServerProcess(folder).start()
    yield Commands(folder, server)
    server.kill()
