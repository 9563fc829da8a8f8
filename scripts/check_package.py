"""Build the wheel, install it into a fresh environment, and try it.

usage: check_package.py [FOLDER]      (default .cache/package)

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
    "opentalos/pipelines/log4j2.properties",
)
FOREIGN = ("tests/", "bench/", "examples/", "docs/", "scripts/")
TRIED = """
import sys
import opentalos.sdk
heavy = {"pyarrow", "numpy", "jpype", "kazoo", "pytest", "opentalos.broker", "opentalos.server"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from opentalos.testing import EmbeddedServer
with EmbeddedServer() as server:
    topic = server.create_topic("first")
    with opentalos.sdk.TalosProducer(server.client_config(), topic.name) as producer:
        producer.put(b"hello")
    with opentalos.sdk.SimpleConsumer(server.client_config(), topic.name) as consumer:
        assert [record.data for record in consumer.fetch(0, 0)] == [b"hello"]
print("a server, a put and a get")
"""


def run(*command: str | Path) -> str:
    """The output of a command that succeeds."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1"),
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


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache" / "package"
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ".")
    (wheel,) = folder.glob("*.whl")
    check_contents(wheel)
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    if "produce" not in run(folder / "venv" / "bin" / "talos", "--help"):
        sys.exit("check_package: talos --help does not list the commands")
    print(f"{wheel.name}: {run(python, '-W', 'error', '-c', TRIED).strip()}")


if __name__ == "__main__":
    main()
