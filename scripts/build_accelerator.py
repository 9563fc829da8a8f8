"""Build the compiled parts of the package, beside their Python modules, where imports find them.

usage: build_accelerator.py [--if-possible | --remove]      (make accelerator)

Everything works without them, so a machine without a C compiler needs nothing: with
``--if-possible`` one line says what is missing, and the exit status is 0; a source that does not
compile fails all the same. Wheels get them
from hatch_build.py, which calls ``build_parts`` too. Only the standard library is used.

A further part, such as modules compiled by another tool, is one more function in PARTS: it writes
its files into a folder and returns them as ``Built``. One with ``abi3=False`` changes the tag of
the wheel to that of the Python that builds it; add the other versions to [tool.cibuildwheel] then.
What a part needs to be built belongs into [build-system] requires if wheels shall have it.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMITS = ROOT / "native" / "commits.c"
ROWS = ROOT / "native" / "rows.c"
COLUMNS = ROOT / "native" / "columns.c"
RECORDS = ROOT / "native" / "records.c"
READS = ROOT / "native" / "reads.c"
FLAGS = ("-O2", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden", "-pthread")
COMPILE_TIMEOUT_S = 120.0


class CannotBuild(Exception):
    """Nothing was built; the text says why and what to do."""


class Missing(CannotBuild):
    """Not for want of a correct source: no compiler, no headers, or no platform for it."""


@dataclass(frozen=True)
class Built:
    """A compiled file; ``module`` is its path in the package. ``abi3``: for Python 3.11 and all
    later ones, not for the one that built it alone."""

    file: Path
    module: str
    abi3: bool


def build_commits(folder: Path) -> list[Built]:
    """The threads of commits. Raises: CannotBuild; Missing."""
    return [compile_source(COMMITS, folder, "opentalos/adapters/local/_native.abi3.so")]


def build_rows(folder: Path) -> list[Built]:
    """The encoder of Arrow columns. Raises: CannotBuild; Missing."""
    return [compile_source(ROWS, folder, "opentalos/sdk/arrow/_native.abi3.so")]


def build_columns(folder: Path) -> list[Built]:
    """The decoder of messages to Arrow columns. Raises: CannotBuild; Missing."""
    return [compile_source(COLUMNS, folder, "opentalos/sdk/arrow/_columns.abi3.so")]


def build_records(folder: Path) -> list[Built]:
    """The walk over Kafka's records. Raises: CannotBuild; Missing."""
    return [compile_source(RECORDS, folder, "opentalos/wire/message/_records.abi3.so")]


def build_reads(folder: Path) -> list[Built]:
    """The reads of the page cache. Raises: CannotBuild; Missing."""
    return [compile_source(READS, folder, "opentalos/adapters/local/_reads.abi3.so")]


def compile_source(source: Path, folder: Path, module: str) -> Built:
    """Compile one C file against the stable interface. Raises: CannotBuild; Missing."""
    compiler, headers = find_tools()
    kind = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    given = shlex.split(os.environ.get("CFLAGS", "") + " " + os.environ.get("ARCHFLAGS", ""))
    target = folder / source.stem / Path(module).name
    target.parent.mkdir()
    command = [*compiler, *kind, "-fPIC", *FLAGS, *given, f"-I{headers}"]
    command += ["-o", str(target), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    except FileNotFoundError as error:
        raise Missing(f"{compiler[0]}: {error}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{compiler[0]}: {error}") from error
    if done.returncode != 0:
        raise CannotBuild(f"{compiler[0]} cannot build {source.name}:\n{done.stderr.strip()}")
    return Built(target, module, abi3=True)


def find_tools() -> tuple[list[str], Path]:
    """The C compiler and the folder of Python's headers. Raises: Missing."""
    headers = Path(sysconfig.get_paths()["include"])
    if sys.platform == "win32":
        raise Missing("the server does not run on Windows")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise Missing("a free-threaded Python has no stable interface; use Python's threads")
    compiler = shlex.split(os.environ.get("CC", ""))
    compiler = compiler or [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]
    if not compiler:
        raise Missing("no C compiler; install gcc or clang, or set CC")
    if not (headers / "Python.h").exists():
        raise Missing(f"no Python.h in {headers}; install python3-dev")
    return compiler, headers


PARTS: tuple[Callable[[Path], list[Built]], ...] = (
    build_commits,
    build_rows,
    build_columns,
    build_records,
    build_reads,
)


def build_parts(folder: Path) -> list[Built]:
    """Build all parts into ``folder``. Raises: CannotBuild: one cannot be built."""
    return [built for build in PARTS for built in build(folder)]


def build_in_place() -> list[Path]:
    """Build all parts beside their modules; what a process has loaded stays as it is."""
    placed = []
    with tempfile.TemporaryDirectory(prefix="opentalos-build-") as folder:
        for built in build_parts(Path(folder)):
            target = ROOT / "src" / built.module
            temporary = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copy(built.file, temporary)
            temporary.replace(target)
            placed.append(target)
    return placed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--if-possible", action="store_true", help="what is missing is no error")
    parser.add_argument("--remove", action="store_true", help="remove what was built")
    arguments = parser.parse_args()
    if arguments.remove:
        for path in (ROOT / "src" / "opentalos").rglob("*.so"):
            path.unlink()
        print("accelerator: removed, Python's threads are tested alone")
        return
    try:
        placed = build_in_place()
    except CannotBuild as error:
        if not (arguments.if_possible and isinstance(error, Missing)):
            sys.exit(f"accelerator: {error}")
        print(f"accelerator: not built, Python's threads are tested alone: {error}")
        return
    print(f"accelerator: built {', '.join(str(path.relative_to(ROOT)) for path in placed)}")


if __name__ == "__main__":
    main()
