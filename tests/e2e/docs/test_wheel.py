"""README and pages for operators, walked with the wheel in a fresh environment, as a user would.

Builds the wheel and installs it with what it needs from the package index. Commands are those of
the pages; their paths and addresses are replaced by ones of the test.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import ended, limit_s

from opentalos.backends.ports import free_ports

ROOT = Path(__file__).resolve().parents[3]
OPERATING = ROOT / "docs" / "operating"
PAGE = OPERATING / "single-server.md"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLS = 3  # packages are fetched, and compiled to bytecode


def blocks(page: Path) -> list[str]:
    """The shell commands of a page that are run."""
    return [str(text) for text in SHELL.findall(page.read_text())]


def environment(installed: Path | None = None) -> dict[str, str]:
    """Without a Python environment and keys of this process."""
    gone = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith("TALOS_") and name not in gone
    }
    path = kept["PATH"] if installed is None else f"{installed / 'bin'}:{kept['PATH']}"
    return {**kept, "PATH": path, "NO_PROXY": "*", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(command: str, folder: Path, installed: Path | None = None, limits: int = 1) -> str:
    """The output of shell commands, each of which succeeds, within so many limits of a wait."""
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder, env=environment(installed), capture_output=True, text=True,
        timeout=limits * limit_s(),
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def serving(command: str, folder: Path, installed: Path) -> Iterator[str]:
    """A server by the page's command; its URL. It ends with status 0 on SIGTERM."""
    with (folder / "server.stderr").open("wb") as stderr:
        server = subprocess.Popen(
            ["bash", "-ec", f"exec {command}"],
            cwd=folder, env=environment(installed), stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
    assert server.stdout is not None
    try:
        line = server.stdout.readline().decode().strip()
        assert line.startswith("ready http://"), (folder / "server.stderr").read_text()
        yield line.removeprefix("ready ")
    finally:
        server.terminate()
        status = ended(server)
        server.stdout.close()
    assert status == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = f"{sys.executable} -m pip wheel --quiet --no-deps --wheel-dir {folder} {ROOT}"
    run(f"OPENTALOS_BUILD_ACCELERATOR=off {command}", folder, limits=INSTALLS)
    (made,) = folder.glob("opentalos-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment by the page's first command."""
    folder = tmp_path_factory.mktemp("opt") / "opentalos"
    command = blocks(PAGE)[0]
    assert command.count("pip install opentalos") == 1
    command = command.replace("pip install opentalos", f"pip install --quiet {wheel}")
    # The same kind of Python as this one.
    command = command.replace("python3", sys.executable)
    run(command.replace("/opt/opentalos", str(folder)), folder.parent, limits=INSTALLS)
    return folder


def test_the_environment_has_the_wheel_and_not_the_checkout(installed: Path) -> None:
    where = run("python -c 'import opentalos; print(opentalos.__file__)'", installed, installed)
    assert Path(where.strip()).is_relative_to(installed)
    packages = run("python -m pip list --format freeze", installed, installed)
    assert "opentalos==" in packages
    assert "pytest==" not in packages


def test_the_readme_runs_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    assert re.search(r"^talos serve$", readme.read_text(), re.MULTILINE)
    (shell,) = blocks(readme)
    program, _ = PYTHON.findall(readme.read_text())
    (tmp_path / "first.py").write_text(program)
    with serving("talos serve --listen 127.0.0.1:0", tmp_path, installed) as url:
        text = f"{shell}\npython first.py".replace("http://127.0.0.1:9420", url)
        output = run(text, tmp_path, installed)
    assert re.search(r"^(\d) 0 b'hello'\n\1 1 b'world'$", output, re.MULTILINE), output


def test_one_server_is_installed_started_and_administered_as_its_page_says(
    installed: Path, tmp_path: Path
) -> None:
    _, start, keys, *_ = blocks(PAGE)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    places = {
        "/var/lib/opentalos": str(tmp_path / "data"),
        "0.0.0.0:9420": address,
        "queue.example.org:9420": address,
    }

    def here(text: str) -> str:
        for place, own in places.items():
            text = text.replace(place, own)
        return text

    with serving(here(start).strip(), tmp_path, installed) as url:
        assert url == f"http://{address}"
        create, second, disable = here(keys).strip().splitlines()
        run(create, tmp_path, installed)
        made = run(second, tmp_path, installed)
        (key_id,) = re.findall(r"^key id: (\w+)$", made, re.MULTILINE)
        assert disable.count("KEYID") == 1
        run(disable.replace("KEYID", key_id), tmp_path, installed)
        listed = run(f"talos key list alice --data {tmp_path / 'data'}", tmp_path, installed)
    live = [line for line in listed.splitlines() if " live " in line]
    assert len(live) == 1
    assert key_id not in live[0]


def test_a_backup_is_made_and_restored_as_its_page_says(installed: Path, tmp_path: Path) -> None:
    def here(text: str) -> str:
        for place in ("/backups", "/safe", "/var/lib"):
            text = text.replace(f"{place}/", f"{tmp_path}{place}/")
        return text

    for place in ("backups", "safe", "var/lib"):
        (tmp_path / place).mkdir(parents=True)
    data = here("/var/lib/opentalos")
    backup, restore = blocks(OPERATING / "backup.md")
    with serving(f"talos serve --data {data} --listen 127.0.0.1:0", tmp_path, installed):
        first = "talos topic create demo --partitions 1 {0} && echo hello | talos produce demo {0}"
        run(first.format(f"--data {data}"), tmp_path, installed)
        run(here(backup), tmp_path, installed)
    *commands, serve = here(restore).strip().splitlines()
    run("\n".join(commands), tmp_path, installed)
    restored = serve.rpartition(" ")[2]
    assert restored != data
    with serving(f"{serve} --listen 127.0.0.1:0", tmp_path, installed):
        shown = run(f"talos consume demo --data {restored}", tmp_path, installed)
    assert "hello" in shown


def test_encryption_is_enabled_as_its_page_says(installed: Path, tmp_path: Path) -> None:
    page = OPERATING / "encryption.md"
    (commands,) = blocks(page)
    (tmp_path / "etc").mkdir()
    run(commands.replace("/etc/talos", str(tmp_path / "etc")), tmp_path, installed)
    config = tmp_path / "talos.toml"
    first = str(TOML.findall(page.read_text())[0])
    config.write_text(first.replace("/etc/talos", str(tmp_path / "etc")))
    serve = f"talos serve --config {config} --data data --listen 127.0.0.1:0"
    with serving(serve, tmp_path, installed):
        shown = run("talos encryption show --data data", tmp_path, installed)
    assert re.search(r"^enabled: +yes$", shown, re.MULTILINE), shown
