"""Compile the leaf modules of the data path with mypyc; their sources stay plain Python.

usage: compile_leaves.py [FOLDER] [--test] [--if-possible]      (make accelerator)

FOLDER, by default .cache/compiled, becomes a copy of the package with the compiled modules beside
their sources; PYTHONPATH=FOLDER runs it. Nothing is compiled in src, because tests replace parts of
modules there, which compiled ones do not allow. ``--test`` compiles quickly into a temporary folder
and runs the unit tests of the leaves on them. Binary wheels get them from hatch_build.py, which
calls ``compile_into``. What may be a leaf, and why: docs/adr/0030-compiled-leaves.md.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
COMPILED = ROOT / ".cache" / "compiled"
GROUP = "opentalos"  # names the library that all leaves share, opentalos__mypyc
LEAVES = (
    "model/histogram.py",
    "wire/metrics/latency.py",
    "wire/signing.py",
    "wire/thrift/hot.py",
    "log/segment/format.py",
    "log/segment/writer.py",
    "log/tail_cache.py",
    "catalog/quota/throttle.py",
    "gateway/http/exchange.py",
    "gateway/http/connection.py",
    "gateway/http/tls_connection.py",
    "gateway/http/traffic.py",
    "gateway/thrift_http/authentication.py",
)
TESTED_BY = (
    "wire/test_signing.py",
    "wire/test_hot_codec.py",
    "wire/test_captured_requests.py",
    "wire/metrics",
    "log/segment",
    "log/partition",
    "log/test_tail_cache.py",
    "log/test_failed_commits.py",
    "catalog/quota",
    "gateway/http",
    "gateway/thrift_http",
)
# Run by a process of its own: mypyc and setuptools change the interpreter that they run in.
BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

level, group, *leaves = sys.argv[1:]
options = ["--config-file=", "--ignore-missing-imports", "--explicit-package-bases"]
made = mypycify([*options, *leaves], opt_level=level, debug_level="0", group_name=group)
command = build_ext(Distribution({"name": group, "ext_modules": made}))
command.inplace, command.parallel = True, 2
command.ensure_finalized()
command.run()
"""


class CannotCompile(Exception):
    """Nothing was compiled; the text says why and what to do."""


class Missing(CannotCompile):
    """Not for want of correct sources: no mypyc, no compiler or no headers."""


def need_tools() -> None:
    """Raises: Missing."""
    for tool in ("mypyc", "setuptools"):
        if importlib.util.find_spec(tool) is None:
            raise Missing(f"{tool} is not installed; run make setup")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        raise Missing("no C compiler; install gcc or clang")
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").exists():
        raise Missing(f"no Python.h in {headers}; install python3-dev")


def compile_into(folder: Path, *, level: int = 3) -> list[Path]:
    """Copy the package into the empty or absent ``folder``, compile the leaves there.

    Args:    level: of the C compiler's optimization.
    Returns: the compiled files, below ``folder``.
    Raises:  CannotCompile; Missing.
    """
    need_tools()
    shutil.copytree(
        SOURCES / "opentalos",
        folder / "opentalos",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    leaves = [f"opentalos/{leaf}" for leaf in LEAVES]
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(level), GROUP, *leaves],
        cwd=folder,
        env=os.environ | {"MYPYPATH": "."},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise CannotCompile(f"mypyc failed:\n{done.stdout.strip()}")
    shutil.rmtree(folder / "build", ignore_errors=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    made = [(folder / leaf).with_suffix(suffix) for leaf in leaves]
    made.append(folder / f"{GROUP}__mypyc{suffix}")
    if missing := [path.name for path in made if not path.exists()]:
        raise CannotCompile(f"mypyc made no {missing}")
    return made


def run_tests(folder: Path) -> int:
    """The unit tests of the leaves, on the copy in ``folder``; pytest's exit status."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    check = (
        "import sys; from opentalos.wire.thrift import hot; sys.exit(hot.__file__[-3:] == '.py')"
    )
    subprocess.run([sys.executable, "-c", check], env=environment, check=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"tests/unit/{path}" for path in TESTED_BY]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main() -> int:
    """Exit with 1 if nothing could be compiled, or a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=COMPILED)
    parser.add_argument("--test", action="store_true", help="run unit tests on a temporary copy")
    parser.add_argument("--if-possible", action="store_true", help="what is missing is no error")
    given = parser.parse_args()
    try:
        if given.test:
            with tempfile.TemporaryDirectory(prefix="opentalos-leaves-") as folder:
                compile_into(Path(folder), level=1)
                return run_tests(Path(folder))
        shutil.rmtree(given.folder, ignore_errors=True)
        made = compile_into(given.folder)
    except CannotCompile as error:
        print(f"| leaves: not compiled: {error}")
        return 0 if given.if_possible and isinstance(error, Missing) else 1
    print(f"| leaves: compiled {len(made) - 1} modules; PYTHONPATH={given.folder} runs them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
