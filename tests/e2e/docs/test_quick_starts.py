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
TYPESCRIPT = ("typescript@5.9", "@types/node@20")
STRIPS_TYPES = (22, 6)  # version of Node
# As the page has it, and as projects of readers may have it.
MODULES = ((), ("--module", "commonjs"), ("--module", "nodenext"))


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


@pytest.mark.parametrize("module", MODULES, ids=["page", "commonjs", "nodenext"])
def test_typescript_compiles_and_runs(
    server: EmbeddedServer, tmp_path: Path, module: tuple[str, ...]
) -> None:
    shutil.copy(PROGRAMS / "quickstart.ts", tmp_path)
    tools = typescript()
    options = ["--strict", "--target", "es2022", "--types", "node"]
    assert f"npx tsc {' '.join(options)} quickstart.ts" in PAGE.read_text()
    run(
        [tools / ".bin" / "tsc", *options, *module, "--typeRoots", tools / "@types",
         "quickstart.ts"], tmp_path,
    )  # fmt: skip
    topic = f"demo-ts-{len(module) and module[1]}"
    lines = run(["node", "quickstart.js", topic], tmp_path, server)
    assert lines == ["read ann hello", "read ann world"]
    judge(server, topic)


def test_typescript_runs_without_a_compiler(server: EmbeddedServer, tmp_path: Path) -> None:
    version = run(["node", "--version"], tmp_path)[0].removeprefix("v").split(".")
    command = ["node", "--experimental-strip-types", PROGRAMS / "quickstart.ts", "demo-stripped"]
    if (int(version[0]), int(version[1])) < STRIPS_TYPES:
        with pytest.raises(AssertionError, match="strip-types"):
            run(command, tmp_path, server)
        return
    assert run(command, tmp_path, server) == ["read ann hello", "read ann world"]
    judge(server, "demo-stripped")


def typescript() -> Path:
    """Where the compiler and the types of Node are; fetched the first time."""
    tools = ROOT / ".cache" / "typescript"
    tools.mkdir(parents=True, exist_ok=True)
    if not (tools / "node_modules" / "@types" / "node").exists():
        run(["npm", "install", "--no-audit", "--no-fund", "--prefix", tools, *TYPESCRIPT], tools)
    return tools / "node_modules"


def test_curl(server: EmbeddedServer, tmp_path: Path) -> None:
    lines = run(["sh", PROGRAMS / "quickstart.sh", "demo-curl"], tmp_path, server)
    found = json.loads("".join(lines))["messages"]
    assert [(item["key"], item["text"]) for item in found] == [("ann", "hello"), ("ann", "world")]
    judge(server, "demo-curl")


def test_the_page_shows_each_program() -> None:
    page = PAGE.read_text()
    assert all(f'"examples/quickstart/{path.name}"' in page for path in PROGRAMS.iterdir())
