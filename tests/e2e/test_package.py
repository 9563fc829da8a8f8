"""What ``pip install opentalos`` promises, as far as it shows without a package index."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.check_package import TRIED
from tests.waiting import completed

from opentalos.testing import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[A-Za-z0-9._-]+")
# Hides every installed module that does not come with the package's own dependencies: importing it
# fails, and looking for it finds nothing, as libraries do that can use others.
BLOCK = """
import sys
sys.modules.update(dict.fromkeys({refused!r}))
"""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(*names: str, own: bool = True) -> set[str]:
    """These packages and all that they need without an extra, by distribution name.

    ``own``: also what opentalos itself names.
    """
    found: set[str] = set() if own else {"opentalos"}
    wanted = list(names)
    while wanted:
        name = plain(wanted.pop())
        if name in found:
            continue
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        found.add(name)
        for need in needs:
            match = NAME.match(need)
            if match and "extra ==" not in need:
                wanted.append(match[0])
    return found


def test_a_base_install_has_the_sdk_and_an_embedded_server() -> None:
    kept = closure("opentalos")
    assert {"aiohttp", "click", "httptools"} <= kept
    assert not {"pyarrow", "numpy", "jpype1", "kazoo", "pytest"} & kept
    refused = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {plain(owner) for owner in owners} & kept
    }
    assert {"pyarrow", "jpype", "kazoo", "pytest"} <= refused
    done = without(kept, TRIED)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a server, a put and a get\n"


def without(kept: set[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import what these distributions own, and nothing else installed."""
    refused = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {plain(owner) for owner in owners} & kept
    }
    return completed([sys.executable, "-c", BLOCK.format(refused=sorted(refused)) + program])


SDK_ALONE = """
import sys
from opentalos.sdk import ClientConfig, SimpleConsumer, TalosProducer
config = ClientConfig.from_environment(dict(TALOS_URL=%r, TALOS_KEY=%r))
with TalosProducer(config, "first") as producer:
    producer.put(b"hello")
with SimpleConsumer(config, "first") as consumer:
    assert [record.data for record in consumer.fetch(0, 0)] == [b"hello"]
from opentalos.cli.main import talos
talos.main(["topic", "list", "--url", %r, "--as", %r], standalone_mode=False)
"""
QUERY = """
import datetime, pathlib, sys, tempfile
from opentalos.cli.main import talos
import pyarrow
from opentalos.pipelines.olap.parquet_store import ParquetStore
home = pathlib.Path(tempfile.mkdtemp())
hour = 1_763_996_400_000
at = pyarrow.array([hour], pyarrow.timestamp("ms", "UTC"))
table = pyarrow.table(dict(time=at, measure=["put_bytes"], total=[60.5]))
ParquetStore(home).replace(hour, dict(metrics_10s=table))
asked = ["top", "metrics_10s", "--home", str(home), "--by", "measure", "--since", "@1763990000"]
talos.main(["query", *asked], standalone_mode=False)
(home / "plans").mkdir()
try:
    invoice = ["bill", "invoice", "--home", str(home), "--month", "2026-03"]
    talos.main(invoice, standalone_mode=False)
except Exception as error:
    print(type(error).__name__)
"""


def test_the_sdk_needs_what_the_documentation_says() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    (named,) = re.findall(r"^pip install (aiohttp .*)$", page, re.MULTILINE)
    with EmbeddedServer() as server:
        server.create_topic("first")
        key = f"{server.key_id}:{server.secret}"
        program = SDK_ALONE % (server.url, key, server.url, key)
        done = without(closure("opentalos", *named.split(), own=False), program)
    assert done.returncode == 0, done.stderr
    assert "first" in done.stdout


def test_queries_and_invoices_need_the_extra_query_alone() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [
        match[0] for need in extras["optional-dependencies"]["query"] if (match := NAME.match(need))
    ]
    done = without(closure("opentalos", *names), QUERY)
    assert done.returncode == 0, done.stderr
    assert "60.5" in done.stdout
    assert "NotFound" in done.stdout  # no invoices yet, and no missing package
    for command in (["query", "tables"], ["bill", "invoice", "--month", "2026-03"]):
        program = (
            f"from opentalos.cli.main import talos; talos.main({command!r}, standalone_mode=False)"
        )
        done = without(closure("opentalos"), program)
        assert done.returncode != 0
        assert "pip install 'opentalos[query]'" in done.stderr


def test_the_metadata_names_command_plugin_extras_and_types() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"talos": "opentalos.cli.main:main"}
    assert project["project"]["entry-points"]["pytest11"] == {
        "opentalos": "opentalos.testing.pytest_plugin"
    }
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/opentalos"]
    assert (ROOT / "src" / "opentalos" / "py.typed").exists()
    installing = (ROOT / "docs" / "how-to" / "install.md").read_text()
    for extra in project["project"]["optional-dependencies"]:
        assert f"opentalos[{extra}]" in installing
