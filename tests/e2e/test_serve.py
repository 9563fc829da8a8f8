"""``talos serve`` as a real process: start, refusals, signals, restart."""

import base64
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.accelerator import KINDS
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.waiting import completed, ended, eventually, limit_s

from opentalos.adapters.local.native_crew import OFF

UNEXPECTED_ERROR = 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path)
    yield process
    process.kill()


def talos(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One command, run to its end."""
    return completed([TALOS, *arguments])


def rest(
    server: ServerProcess, method: str, path: str, document: Any = None, key: str = ""
) -> tuple[int, Any]:
    """One REST call as root, or with ``ID:SECRET``."""
    token = base64.b64encode((key or f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}").encode()).decode()
    request = urllib.request.Request(
        f"{server.url}{path}",
        method=method,
        headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        data=None if document is None else json.dumps(document).encode(),
    )
    try:
        with urllib.request.urlopen(request, timeout=limit_s()) as reply:
            text, status = reply.read(), reply.status
    except urllib.error.HTTPError as error:
        with error:
            text, status = error.read(), error.code
    return status, json.loads(text) if text else None


def test_ready_has_the_address_and_server_json_the_ports(server: ServerProcess) -> None:
    server.start()
    record = json.loads((server.data / "server.json").read_text())
    assert record["ports"] == {"http": server.port}
    assert record["url"] == server.url
    assert record["pid"] == server.pid
    assert rest(server, "GET", "/healthz") == (200, {"status": "ok"})


@pytest.mark.parametrize("accelerator", KINDS)
def test_the_log_and_the_status_say_which_threads_commit(
    server: ServerProcess, accelerator: str
) -> None:
    server.config = f'[storage]\naccelerator = "{accelerator}"\n'
    server.start()
    native = accelerator != OFF
    assert f"commits run on {'native' if native else 'Python'} threads" in server.stderr()
    status, shown = rest(server, "GET", "/rest/v1/status")
    assert (status, shown["native_commits"]) == (200, native)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_cleanly_and_in_time(
    server: ServerProcess, number: signal.Signals
) -> None:
    # Nothing but the stop ends a request that its sender does not continue.
    server.config = f"[http]\nrequest_timeout_s = {10 * limit_s()}\n"
    server.start()
    assert server.process is not None
    with socket.create_connection(("127.0.0.1", server.port)) as idle:
        idle.sendall(b"POST /v1/api/message HTTP/1.1\r\n")  # a sender that never continues
        server.process.send_signal(number)
        assert ended(server.process, "a server that was signalled ends") == 0
    assert server.process.stdout is not None
    assert server.process.stdout.read() == b""  # the ready line was the only one
    assert "Traceback" not in server.stderr()
    assert not (server.data / "server.json").exists()


def test_a_second_server_is_refused_with_the_first_ones_pid(server: ServerProcess) -> None:
    server.start()
    second = talos("serve", "--data", str(server.data), "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert f"the server with pid {server.pid} uses it" in second.stderr
    assert "Traceback" not in second.stderr
    assert rest(server, "GET", "/healthz")[0] == 200


def test_a_killed_server_starts_again_and_keeps_its_principals(server: ServerProcess) -> None:
    server.start()
    assert rest(server, "POST", "/rest/v1/principals", {"id": "alice"})[0] == 201
    status, key = rest(server, "POST", "/rest/v1/principals/alice/keys")
    assert status == 201
    server.kill()
    server.start()
    alice = f"{key['key_id']}:{key['secret']}"
    status, listed = rest(server, "GET", "/rest/v1/principals", key=alice)
    assert status == 200
    assert [principal["id"] for principal in listed["principals"]] == ["alice"]
    assert server.stop() == 0


def test_the_first_start_without_a_key_makes_a_private_key_file(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [str(TALOS), "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready http://127.0.0.1:")
        path = tmp_path / "data" / "root.key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert str(path) in (tmp_path / "stderr").read_text()
        made = talos("user", "create", "bob", "--data", str(tmp_path / "data"))
        assert made.returncode == 0, made.stderr
        assert "secret: " in made.stdout
        again = talos("user", "create", "bob", "--data", str(tmp_path / "data"))
        assert again.returncode == 1
        assert "bob" in again.stderr
        listed = talos("key", "list", "bob", "--data", str(tmp_path / "data"))
        key_id = listed.stdout.splitlines()[1].split()[0]  # below the header
        assert "live" in listed.stdout
        disabled = talos("key", "disable", key_id, "--data", str(tmp_path / "data"))
        assert disabled.returncode == 0, disabled.stderr
        listed = talos("key", "list", "bob", "--data", str(tmp_path / "data"))
        assert "disabled" in listed.stdout
    finally:
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
        if process.stdout is not None:
            process.stdout.close()


def test_rest_answers_problems_and_authorises(server: ServerProcess) -> None:
    server.start()
    assert rest(server, "GET", "/rest/v1/principals", key="nobody:x")[0] == 401
    status, problem = rest(server, "GET", "/rest/v1/nothing")
    assert (status, problem["outcome"]) == (404, "not done")
    assert rest(server, "POST", "/rest/v1/principals", {"id": "a/../b"})[0] == 400
    assert rest(server, "POST", "/rest/v1/principals", [1])[0] == 400
    rest(server, "POST", "/rest/v1/principals", {"id": "eve"})
    _, key = rest(server, "POST", "/rest/v1/principals/eve/keys")
    eve = f"{key['key_id']}:{key['secret']}"
    assert rest(server, "POST", "/rest/v1/principals", {"id": "x"}, eve)[0] == 403
    assert rest(server, "DELETE", f"/rest/v1/keys/{key['key_id']}")[0] == 204
    assert rest(server, "GET", "/rest/v1/principals", key=eve)[0] == 401


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[http]\nbody_bytes_maxx = 1\n", "did you mean body_bytes_max?"),
        ("[storage]\nmeta = 'zookeeper://z'\n", "zookeeper:// meta needs hbase:// rows"),
        ("[", "invalid TOML"),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "talos.toml"
    path.write_text(text)
    for command in (["config", "check", str(path)], ["serve", "--config", str(path)]):
        done = talos(*command)
        assert done.returncode == 1
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert complaint in line


def test_wrong_usage_exits_with_2() -> None:
    for arguments in (["serve", "--nonsense"], ["nonsense"], ["config", "check"]):
        assert talos(*arguments).returncode == 2


def test_a_server_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    for arguments in (
        ["--url", "http://127.0.0.1:1", "--as", "a:b"],
        ["--data", str(tmp_path)],
    ):
        done = talos("user", "list", *arguments)
        assert done.returncode == 1
        assert "cannot reach" in done.stderr or "no server is running on" in done.stderr


def test_a_taken_port_and_a_wrong_root_key_are_refused(server: ServerProcess) -> None:
    server.start()
    taken = talos(
        "serve", "--data", f"{server.folder}/other", "--listen", f"127.0.0.1:{server.port}"
    )
    assert taken.returncode == 1
    assert "cannot listen" in taken.stderr
    wrong = talos("serve", "--data", f"{server.folder}/other", "--root-key", "secret-only")
    assert wrong.returncode == 1
    assert "secret-only" not in wrong.stderr


def test_an_idle_server_is_small(server: ServerProcess) -> None:
    server.start()
    status = Path(f"/proc/{server.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    assert int(line.split()[1]) * 1024 <= 80 << 20
    assert os.path.exists(server.data / "format.json")


def refusal(topic: RawTopic) -> TalosError:
    """Of the first put that meets the fault."""
    found: list[TalosError] = []

    def refused() -> bool:
        try:
            topic.put(b"two")
        except TalosError as error:
            found.append(error)
        return bool(found)

    eventually("a put meets the fault", refused)
    return found[0]


@pytest.mark.parametrize("journal", ["off", "on"])
def test_a_signal_ends_the_server_in_time_although_storage_hangs(
    tmp_path: Path, journal: str
) -> None:
    hang_file = tmp_path / "hang"
    launcher = (sys.executable, "-m", "bench.serve_faulty", "--hang-file", str(hang_file))
    # An event of the audit would meet the hanging journal first, and puts then go without it.
    config = f'[log]\njournal = "{journal}"\n[audit]\nenabled = false\n'
    server = ServerProcess(tmp_path, config, launcher=launcher).start()
    try:
        client = RawClient(server.port)
        topic = RawTopic.create(client, "hanging")
        topic.put(b"one")
        topic_uuid = topic.resource.topicTalosResourceName.rsplit("#", 1)[1]
        hang_file.write_text(topic_uuid if journal == "off" else "journal")
        # Unknown, reported before the client gives up.
        assert refusal(topic).code == UNEXPECTED_ERROR
        client.close()
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert ended(server.process, "a server whose storage hangs ends") == 0
    finally:
        server.kill()


def test_a_taken_port_leaves_no_trace_and_names_its_user(server: ServerProcess) -> None:
    server.start()
    listen = ("--listen", f"127.0.0.1:{server.port}")
    other = server.folder / "untouched"
    done = talos("serve", "--data", str(other), *listen)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"process {server.pid} (" in done.stderr
    assert "--listen" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not other.exists()
    same = talos("serve", "--data", str(server.data), *listen)
    assert f"the server of data directory {server.data}" in same.stderr
    nowhere = talos("serve", "--data", str(other), "--listen", "192.0.2.1:9420")
    assert "cannot listen on 192.0.2.1:9420" in nowhere.stderr
    assert not other.exists()
