"""``talos doctor``: its checks, its exit status, and a debug bundle without secrets."""

import json
import os
import socket
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import completed

from opentalos.cli.counts import counted

PLANTED = "planted-secret-5a17"
CONFIG = f"""
[zookeeper]
auth = "user:{PLANTED}"
[encryption]
key_command = "print-key --password {PLANTED}"
"""
CHECKS = {
    "machine", "python", "packages", "files", "clock", "space", "disk", "sync", "kafka", "messages",
}  # fmt: skip


def doctor(
    folder: Path, *arguments: object, **variables: str
) -> "subprocess.CompletedProcess[str]":
    known = {name: item for name, item in os.environ.items() if not name.startswith("TALOS_")}
    return completed(
        [str(TALOS), "doctor", *map(str, arguments)],
        cwd=folder, env={**known, "HOME": str(folder), "NO_PROXY": "*", **variables},
    )  # fmt: skip


@pytest.fixture
def server(servers: SharedServers) -> ServerProcess:
    return servers.get()


def test_a_machine_without_a_server_is_checked_with_a_temporary_one(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = tmp_path / "config.toml"
        config.write_text(f'[server]\nlisten = "127.0.0.1:{taken.getsockname()[1]}"\n')
        done = doctor(tmp_path, "--config", config, "--format", "json")
    rows = {row["check"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows.keys() == CHECKS | {"config", "port"}
    assert rows["port"]["state"] == "problem"
    assert f"process {os.getpid()} " in rows["port"]["text"]
    assert rows["kafka"]["state"] == "ok"
    assert rows["messages"]["state"] == "ok"
    assert "a temporary server" in rows["messages"]["text"]
    assert all(row["remedy"] for row in rows.values() if row["state"] == "warning")
    assert done.returncode == 1
    assert {path.name for path in tmp_path.iterdir()} == {"config.toml"}


def test_a_running_server_is_asked_and_the_bundle_has_no_secrets(
    server: ServerProcess, tmp_path: Path
) -> None:
    config, bundle = tmp_path / "config.toml", tmp_path / "debug.tar.gz"
    config.write_text(CONFIG)
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    variables = {"TALOS_URL": server.url, "TALOS_KEY": key, "TALOS_ROOT_KEY": f"ID:{PLANTED}"}
    done = doctor(tmp_path, "--config", config, "--bundle", bundle, **variables)
    assert f"put and read a message on {server.url}" in done.stdout
    lines = done.stdout.splitlines()
    assert f"ok       config    {config}" in lines
    problems = sum(line.startswith("problem") for line in lines[:-1])
    assert lines[-1] == f"{counted(problems, 'problem')} in 11 checks"
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    with tarfile.open(bundle) as found:
        parts = {
            member.name: (found.extractfile(member) or pytest.fail(member.name)).read().decode()
            for member in found.getmembers()
        }
    everything = "\n".join(parts.values())
    assert ROOT_KEY.secret not in everything
    assert PLANTED not in everything
    assert {"TALOS_KEY", "TALOS_URL"} <= set(parts["talos-doctor/variables.txt"].split())
    assert 'auth = "..."' in parts["talos-doctor/config.toml"]
    assert json.loads(parts["talos-doctor/versions.json"])["opentalos"]
    assert "talos-doctor/status.json" in parts
    again = doctor(tmp_path, "--bundle", bundle, **variables)
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_wrong_keys_are_problems_without_their_values(
    server: ServerProcess, tmp_path: Path
) -> None:
    config, bundle = tmp_path / "config.toml", tmp_path / "debug.tar.gz"
    config.write_text(f'[zookeeper]\nauth = ["{PLANTED}"]\n[log]\nlanes = "x"\n')
    asked = ("--config", config, "--bundle", bundle, "--url", "http://127.0.0.1:1", "--as", "a:b")
    done = doctor(tmp_path, *asked)
    assert done.returncode == 1
    assert "[zookeeper] auth must be a string; the other checks use the defaults" in done.stdout
    assert "[log] lanes must be" in done.stdout
    assert "no round trip on http://127.0.0.1:1" in done.stdout
    assert PLANTED not in done.stdout + done.stderr
    with tarfile.open(bundle) as found:
        texts = [
            (found.extractfile(one) or pytest.fail(one.name)).read() for one in found.getmembers()
        ]
    assert PLANTED.encode() not in b"".join(texts)
