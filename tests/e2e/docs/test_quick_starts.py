"""The quick starts of the guide, as printed there, against a real server."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.waiting import limit_s

from opentalos.backends.jars import JAVA_CLIENTS, java, need_jars
from opentalos.sdk import SimpleConsumer, TalosAdmin
from opentalos.testing import EmbeddedServer

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "examples" / "quickstart"
PAGE = ROOT / "docs" / "how-to" / "quick-starts.md"
# The client uses a class of Java that Java 9 and later hide.
EXPORTS = "java.xml/com.sun.org.apache.xerces.internal.impl.dv.util=ALL-UNNAMED"
TYPESCRIPT = ("typescript@5.9", "@types/node@20")  # where Node cannot run TypeScript itself
STRIPS_TYPES = (22, 6)  # version of Node


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


def run_s() -> float:
    """The first time, compilers and their packages are fetched, which a wait does not know."""
    return 2 * limit_s()


def run(command: Sequence[object], folder: Path, server: EmbeddedServer | None = None) -> list[str]:
    """The lines of a program; it ends with status 0."""
    environment = dict(os.environ)
    if server is not None:
        # Programs in Go and Java would ask a proxy for an address of this machine.
        environment = {k: v for k, v in environment.items() if "proxy" not in k.lower()}
        key = f"{server.key_id}:{server.secret}"
        environment |= {"TALOS_URL": server.url, "TALOS_KEY": key}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=run_s(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def judge(server: EmbeddedServer, topic: str, key: str | None = "ann") -> None:
    """Both messages are stored with their key, and the group has read them."""
    with SimpleConsumer(server.client_config(), topic) as consumer:
        stored = [
            record
            for partition, offsets in consumer.offsets().items()
            if offsets.next
            for record in consumer.fetch(partition, 0)
        ]
    assert [(item.data, item.partition_key) for item in stored] == [
        (b"hello", key),
        (b"world", key),
    ]
    with TalosAdmin(server.client_config()) as admin:
        lags = admin.groups.lag(topic, "readers")
    assert [lag.checkpoint for lag in lags if lag.partition == stored[0].partition] == [1]


def test_java_with_the_official_sdk(server: EmbeddedServer, tmp_path: Path) -> None:
    jars = sorted(need_jars(JAVA_CLIENTS).glob("*.jar"))
    compiler = next(jar for jar in jars if jar.name.startswith("ecj-"))
    path = ":".join(map(str, [tmp_path, *jars]))
    run(
        [java(), "-jar", compiler, "-17", "-nowarn", "-cp", path, "-d", tmp_path,
         PROGRAMS / "QuickStart.java"], tmp_path,
    )  # fmt: skip
    command = [java(), "-XX:TieredStopAtLevel=1", "--add-exports", EXPORTS, "-cp", path]
    lines = run([*command, "QuickStart", "demo-java"], tmp_path, server)
    assert [line for line in lines if line.startswith("read ")] == ["read hello", "read world"]
    judge(server, "demo-java", key=None)  # V2, which has none


def test_go(server: EmbeddedServer, tmp_path: Path) -> None:
    run(["go", "build", "-o", tmp_path / "quickstart", PROGRAMS / "quickstart.go"], tmp_path)
    lines = run([tmp_path / "quickstart", "demo-go"], tmp_path, server)
    assert lines == ["read ann hello", "read ann world"]
    judge(server, "demo-go")


def test_typescript(server: EmbeddedServer, tmp_path: Path) -> None:
    lines = run([*_typescript(tmp_path), "demo-ts"], tmp_path, server)
    assert lines == ["read ann hello", "read ann world"]
    judge(server, "demo-ts")


def _typescript(folder: Path) -> list[object]:
    """The command that runs the program with this machine's Node."""
    source = PROGRAMS / "quickstart.ts"
    version = run(["node", "--version"], folder)[0].removeprefix("v").split(".")
    if (int(version[0]), int(version[1])) >= STRIPS_TYPES:
        return ["node", "--experimental-strip-types", source]
    tools = ROOT / ".cache" / "typescript"
    tools.mkdir(parents=True, exist_ok=True)
    if not (tools / "node_modules" / "@types" / "node").exists():
        run(["npm", "install", "--no-audit", "--no-fund", "--prefix", tools, *TYPESCRIPT], tools)
    shutil.copy(source, folder)
    (folder / "package.json").write_text(json.dumps({"type": "module"}))
    run(
        [tools / "node_modules" / ".bin" / "tsc", "--strict", "--target", "es2022",
         "--module", "nodenext", "--types", "node",
         "--typeRoots", tools / "node_modules" / "@types", "quickstart.ts"], folder,
    )  # fmt: skip
    return ["node", folder / "quickstart.js"]


def test_curl(server: EmbeddedServer, tmp_path: Path) -> None:
    lines = run(["sh", PROGRAMS / "quickstart.sh", "demo-curl"], tmp_path, server)
    found = json.loads("".join(lines))["messages"]
    assert [(item["key"], item["text"]) for item in found] == [("ann", "hello"), ("ann", "world")]
    judge(server, "demo-curl")


def test_the_page_shows_each_program() -> None:
    page = PAGE.read_text()
    assert all(f'"examples/quickstart/{path.name}"' in page for path in PROGRAMS.iterdir())
