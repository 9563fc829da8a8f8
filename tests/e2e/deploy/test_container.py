"""The Dockerfile: its linter, what it copies, and its command and health check as processes here.

No image is built, since that needs root: make image-check does.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server_process import TALOS, ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import completed, ended

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "container"
DOCKERFILE = FOLDER / "Dockerfile"
DATA, LISTEN, KAFKA = "/var/lib/opentalos", "0.0.0.0:9420", "0.0.0.0:9092"


def dockerfile() -> str:
    """Its text, without comments, an instruction on each line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    return text.replace("\\\n", " ")


def instructions(name: str) -> list[str]:
    """The arguments of every instruction of this name."""
    return re.findall(rf"^{name}\s+(.*)$", dockerfile(), flags=re.MULTILINE)


def words(text: str) -> list[str]:
    """Of an instruction in exec form."""
    return [str(word) for word in json.loads(text)]


def command_with(word: str) -> list[str]:
    """The only command that has this in it: that of the image, or of its health check."""
    (found,) = (text for text in re.findall(r"CMD (\[.*\])", dockerfile()) if word in text)
    return words(found)


def healthy(data: Path) -> subprocess.CompletedProcess[str]:
    """The image's health check, on this data directory."""
    command = command_with("healthcheck")
    paths = {"/usr/local/lib/opentalos/healthcheck.py": FOLDER / "healthcheck.py", DATA: data}
    return completed([sys.executable, *(paths.get(word, word) for word in command[1:])])


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The image's entry point and command, below this folder and on a free port."""
    data = folder / "data"
    replaced = {DATA: str(data), LISTEN: "127.0.0.1:0", KAFKA: "127.0.0.1:0"}
    entry = instructions("ENTRYPOINT")[0]
    command = [*words(entry), *command_with("serve")]
    assert command[0] == "talos"
    process = subprocess.Popen(
        [str(TALOS), *(replaced.get(word, word) for word in command[1:])],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith(b"ready http://127.0.0.1:")
        yield process, data
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_linter_has_no_remarks() -> None:
    tool = Path(sys.executable).parent / "hadolint"
    done = completed([tool, "--no-color", DOCKERFILE])
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_copied_exists_and_is_sent_to_the_builder() -> None:
    sent = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    copied = [
        source
        for arguments in instructions("COPY")
        if not arguments.startswith("--from=")
        for source in arguments.split()[:-1]
    ]
    assert {"src", "native", "requirements/runtime.lock"} <= set(copied)
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(Path(source).match(item) or source.startswith(f"{item}/") for item in sent)


def test_every_package_has_a_hash() -> None:
    locks = re.findall(r"requirements/(\w+)\.lock", DOCKERFILE.read_text())
    assert {"build", "runtime", "cluster", "spark"} == set(locks)
    for name in locks:
        text = (ROOT / "requirements" / f"{name}.lock").read_text()
        packages = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
        assert packages
        assert [item for item in packages if "--hash=sha256:" not in item] == []


def test_every_variant_ends_as_another_user_than_root() -> None:
    users = instructions("USER")
    assert users == ["10001:10001", "0:0", "10001:10001", "10001:10001"]  # base, cluster, spark
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_the_command_serves_is_healthy_and_drains_on_sigterm(tmp_path: Path) -> None:
    assert healthy(tmp_path / "data").returncode == 1  # nothing runs yet
    with running(tmp_path) as (process, data):
        done = healthy(data)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
        after = healthy(data)
    assert after.returncode == 1
    assert after.stdout.startswith("not healthy: ")


def test_a_server_that_hangs_is_not_healthy(tmp_path: Path) -> None:
    with running(tmp_path) as (process, data):
        process.send_signal(signal.SIGSTOP)
        done = healthy(data)
        process.send_signal(signal.SIGCONT)
    assert done.returncode == 1
    assert "timed out" in done.stdout


@pytest.mark.parametrize("mutual", [False, True])
def test_the_health_check_reaches_a_port_with_tls(tmp_path: Path, mutual: bool) -> None:
    files = TlsFolder(tmp_path / "tls")
    more = {"client_ca_file": str(files.ca)} if mutual else {}
    server = ServerProcess(tmp_path, files.section(**more)).start()
    try:
        done = healthy(server.data)
    finally:
        server.stop()
    assert (done.returncode, done.stdout) == (0, "")
