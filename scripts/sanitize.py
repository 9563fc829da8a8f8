"""Run the C parts under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer.

usage: sanitize.py [--if-possible]      (make sanitize)

The modules are built with the first two into a copy of the package below .cache, never in src, and
the tests that call them run on that copy. ``PYTHONMALLOC=malloc`` makes each object of Python an
allocation of its own, or the sanitizer would see large pools of them only. A ``bytes`` ends with a
zero byte beyond its length: to read or write that one is not noticed.

ThreadSanitizer cannot see the locks of an interpreter that was built without it. So the threads of
commits run without Python, in tests/native/pool_driver.c, on both kinds of waiting; at last their
source is changed so that they race, and the run has to see each race.

One line for each step. Ends with 1 at the first finding and shows its report, with 2 if a tool is
missing; with ``--if-possible`` that is one line and status 0. Linux and gcc only.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a file: scripts is no package of the environment

from scripts.build_accelerator import CannotBuild, Missing, build_parts, find_tools  # noqa: E402

NATIVE = ROOT / "native"
POOL = NATIVE / "commit_pool.h"
DRIVER = ROOT / "tests" / "native" / "pool_driver.c"
FOLDER = ROOT / ".cache" / "sanitized"
# All tests that call the C parts in their own process. Those of whole servers are left out: their
# calls are the same, and the recorder of power cuts is preloaded as the sanitizer would be.
TESTED_BY = (
    "tests/unit/adapters/local",
    "tests/unit/adapters/test_kill.py",
    "tests/unit/pipelines/datasource/sink/test_routing.py",
    "tests/unit/pipelines/datasource/source/test_columns.py",
    "tests/unit/pipelines/datasource/source/test_range_reader.py",
    "tests/unit/sdk/aio/consumer/test_range_read.py",
    "tests/unit/sdk/arrow",
    "tests/unit/wire/kafka/test_records.py",
    "tests/contract/test_file_store.py",
    "tests/contract/test_golden_data.py",
    "tests/contract/test_log_verify.py",
)
# It limits the address space, of which the sanitizer needs some for each thread, or it ends.
LEFT_OUT = (
    "tests/unit/adapters/local/test_native_threads.py"
    "::test_a_system_without_room_for_a_thread_names_the_errno"
)

# A handler of crashes would take the place of the sanitizer's, which says more.
PYTEST = ("-p", "no:cacheprovider", "-p", "no:faulthandler")
COMMON = ("-g", "-O1", "-fno-omit-frame-pointer")
MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", *COMMON)
# With its own copy of libubsan in each module: as a library it takes the place of reports from the
# preloaded libasan, which keeps that to itself, and its reports would end on stderr.
MODULES = (*MEMORY, "-static-libubsan", "-Wl,--exclude-libs,ALL")
THREADS = ("-fsanitize=thread", *COMMON)
DRIVER_FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread")
FOUND = 66  # exit status of a process in which a sanitizer found something
RANDOM_BITS_MAX = 28  # of addresses; gcc 12's libraries do not start with more

COMPILE_S_MAX = 120.0
TESTS_S_MAX = 1800.0  # they take two minutes on a quiet machine
DRIVER_S_MAX = 300.0  # above its own limit
ENDS_S_MAX = 10.0  # a killed process


class Finding(Exception):
    """A sanitizer or a test found something; the text is its report."""


@dataclass(frozen=True)
class Tools:
    compiler: tuple[str, ...]
    address: Path  # the library to load before the interpreter
    launcher: tuple[str, ...]  # of a program with a sanitizer


@dataclass(frozen=True)
class Mutant:
    """A race: what is left out, as a macro of the driver or in the source of the pool."""

    name: str
    macros: tuple[str, ...] = ()
    sound: str = ""  # of the source, once
    racing: str = ""


MUTANTS = (
    Mutant("no lock of the interpreter", ("WITHOUT_INTERPRETER_LOCK",)),
    Mutant(
        "completions in any order",
        sound="&pool->ended, &newest, job, memory_order_release",
        racing="&pool->ended, &newest, job, memory_order_relaxed",
    ),
    Mutant(
        "tickets added without their lock",
        ("TICKETS_BY_LOCK",),
        sound="pthread_mutex_lock(&it->lock);\n    it->count++;\n"
        "    pthread_cond_signal(&it->more);\n    pthread_mutex_unlock(&it->lock);",
        racing="it->count++;\n    pthread_cond_signal(&it->more);",
    ),
)


# --- programs -----------------------------------------------------------------------------------


@contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Whatever happens, the process and what it started are gone afterwards."""
    try:
        yield
    finally:
        started = []
        if process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                started = psutil.Process(process.pid).children(recursive=True)
            process.kill()
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(started, timeout=ENDS_S_MAX)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run(
    command: Sequence[str | Path], *, seconds_max: float, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Exit status and output, in the repository. Raises: Finding: it does not end in time."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with _ended(process):
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired as error:
            raise Finding(f"{command[0]} did not end within {seconds_max:.0f} s") from error
    return process.returncode, output


def find_sanitizers(folder: Path) -> Tools:
    """Compile a program with each. Raises: Missing."""
    if sys.platform != "linux":
        raise Missing("sanitizers are used on Linux only")
    compiler = tuple(shlex.split(os.environ.get("CC", "")) or ["gcc"])
    if shutil.which(compiler[0]) is None:
        raise Missing(f"no {compiler[0]}; install gcc")
    find_tools()
    source = folder / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    for flags, libraries in ((MODULES, "libasan and libubsan"), (THREADS, "libtsan")):
        command = [*compiler, *flags, "-o", str(folder / "nothing"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX)
        if done.returncode != 0:
            raise Missing(f"{compiler[0]} cannot link {libraries}; install its sanitizers")
    named = subprocess.run(
        [*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    address = Path(named.stdout.strip())
    if not address.is_absolute():
        raise Missing(f"{compiler[0]} has no shared libasan; set CC=gcc")
    return Tools(compiler, address, _launcher())


def _launcher() -> tuple[str, ...]:
    """Where addresses are more random than the libraries can bear, a program gets plain ones."""
    with suppress(OSError, ValueError):
        bits = int(Path("/proc/sys/vm/mmap_rnd_bits").read_text())
        if bits > RANDOM_BITS_MAX and shutil.which("setarch"):
            return ("setarch", "--addr-no-randomize")
    return ()


# --- memory and undefined behaviour -------------------------------------------------------------


def environment_of(tools: Tools, package: Path, reports: Path) -> dict[str, str]:
    """Of an interpreter that loads instrumented modules from ``package``.

    Reports are files: pytest would keep those on stderr to itself when the process dies, and a
    test may not look at the exit status of what it starts.
    """
    shared = f"exitcode={FOUND}:log_path={reports}/report"
    return os.environ | {
        "PYTHONPATH": str(package),
        "LD_PRELOAD": str(tools.address),
        "PYTHONMALLOC": "malloc",
        # CPython itself keeps memory until it ends. A refused allocation is NULL, as without.
        "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:{shared}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{shared}",
    }


def run_instrumented(
    command: Sequence[str | Path], reports: Path, environment: Mapping[str, str]
) -> str:
    """The output of a program that succeeds. Raises: Finding: reports, or what it printed."""
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    status, output = run(command, seconds_max=TESTS_S_MAX, environment=environment)
    found = [path.read_text(errors="replace") for path in sorted(reports.iterdir())]
    if found:
        raise Finding("\n".join(found))
    if status != 0:
        raise Finding(f"{output.rstrip()}\nexit status {status}")
    return output


def build_modules(tools: Tools, package: Path) -> list[str]:
    """Copy the package and put instrumented modules into it; their names. Raises: CannotBuild."""
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "opentalos",
        package / "opentalos",
        ignore=shutil.ignore_patterns("__pycache__", "*.so"),
    )
    built_in = package.with_name("modules")
    shutil.rmtree(built_in, ignore_errors=True)
    built_in.mkdir(parents=True)
    former = {name: os.environ.get(name) for name in ("CC", "CFLAGS")}
    os.environ |= {"CC": shlex.join(tools.compiler), "CFLAGS": shlex.join(MODULES)}
    try:
        parts = build_parts(built_in)
    finally:
        for name, value in former.items():
            os.environ.pop(name)
            os.environ |= {} if value is None else {name: value}
    for part in parts:
        shutil.copy(part.file, package / part.module)
    return [part.module.partition(".")[0].replace("/", ".") for part in parts]


def check_modules(names: Sequence[str], tools: Tools, package: Path, reports: Path) -> None:
    """The tests load these, and no others. Raises: Finding."""
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[2:]:\n"
        "    file = importlib.import_module(name).__file__\n"
        "    assert file.startswith(sys.argv[1]), file\n"
    )
    command = [sys.executable, "-c", program, str(package), *names]
    run_instrumented(command, reports, environment_of(tools, package, reports))


def run_tests(tools: Tools, package: Path, reports: Path) -> str:
    """What pytest says in its last line. Raises: Finding."""
    command = [sys.executable, "-m", "pytest", "-q", *PYTEST]
    command += ["-m", "not backend", f"--deselect={LEFT_OUT}", *TESTED_BY]
    output = run_instrumented(command, reports, environment_of(tools, package, reports))
    if "were not tested" in output:
        raise Finding(output)
    return output.rstrip().splitlines()[-1]


# --- threads ------------------------------------------------------------------------------------


def build_driver(
    tools: Tools, folder: Path, flags: Sequence[str], mutant: Mutant | None = None
) -> Path:
    """The driver on the pool's source, or on a racing copy of it. Raises: CannotBuild."""
    headers, macros = NATIVE, mutant.macros if mutant else ()
    folder.mkdir(parents=True)
    if mutant is not None and mutant.sound:
        source = POOL.read_text()
        if source.count(mutant.sound) != 1:
            raise CannotBuild(f"{POOL.name} changed: adapt the mutant {mutant.name!r}")
        headers = folder
        (folder / POOL.name).write_text(source.replace(mutant.sound, mutant.racing))
    program = folder / "pool_driver"
    command = [*tools.compiler, *DRIVER_FLAGS, *flags, *(f"-D{name}" for name in macros)]
    command += [f"-I{headers}", "-o", str(program), str(DRIVER)]
    status, output = run(command, seconds_max=COMPILE_S_MAX, environment=os.environ)
    if status != 0:
        raise CannotBuild(f"{tools.compiler[0]} cannot build {DRIVER.name}:\n{output}")
    return program


def run_driver(tools: Tools, program: Path) -> tuple[int, str]:
    """Exit status and output; FOUND is the status of a race."""
    files = program.with_name("files")
    files.mkdir()
    environment = os.environ | {
        "TSAN_OPTIONS": f"halt_on_error=1:exitcode={FOUND}",
        "ASAN_OPTIONS": f"detect_leaks=0:exitcode={FOUND}",  # an abandoned pool loses jobs
        "UBSAN_OPTIONS": f"print_stacktrace=1:exitcode={FOUND}",
    }
    command = [*tools.launcher, str(program), str(files)]
    return run(command, seconds_max=DRIVER_S_MAX, environment=environment)


def check_driver(tools: Tools, folder: Path, flags: Sequence[str]) -> str:
    """What a run without a finding prints. Raises: CannotBuild; Finding."""
    status, output = run_driver(tools, build_driver(tools, folder, flags))
    if status != 0:
        raise Finding(f"{output.rstrip()}\n{DRIVER.name} ended with status {status}")
    return output.strip()


def check_mutant(tools: Tools, folder: Path, mutant: Mutant) -> None:
    """Raises: CannotBuild; Finding: its race is not seen."""
    status, output = run_driver(tools, build_driver(tools, folder, THREADS, mutant))
    if status != FOUND or "data race" not in output:
        raise Finding(
            f"{output.rstrip()}\nthe race of the mutant {mutant.name!r} was not seen: "
            f"status {status}, not {FOUND}"
        )


# --- the command --------------------------------------------------------------------------------


def steps(tools: Tools, folder: Path) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Each says what it does, and at its end what it did."""
    package, reports = folder / "package", folder / "reports"

    def modules() -> str:
        names = build_modules(tools, package)
        check_modules(names, tools, package, reports)
        return f"{len(names)} modules"

    yield "build with address and undefined", modules
    yield "tests on these modules", lambda: run_tests(tools, package, reports)
    for name, flags in (
        ("address and undefined", MEMORY),
        ("thread", THREADS),
        ("thread, waiting by a lock", (*THREADS, "-DTICKETS_BY_LOCK")),
    ):
        target = folder / name.replace(" ", "-").replace(",", "")
        yield f"commit pool with {name}", partial(check_driver, tools, target, flags)
    for number, mutant in enumerate(MUTANTS):
        target = folder / f"mutant-{number}"
        yield f"race is seen: {mutant.name}", partial(check_mutant, tools, target, mutant)


def run_steps(folder: Path) -> None:
    """Raises: CannotBuild; Missing; Finding."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, step in steps(find_sanitizers(folder), folder):
        began_s = time.monotonic()
        said = step()
        took_s = time.monotonic() - began_s
        print(f"| sanitize: {name}, {took_s:.1f} s{f': {said}' if said else ''}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """0: nothing was found; 1: something; 2: a tool is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--if-possible", action="store_true", help="what is missing is no error")
    given = parser.parse_args(arguments)
    try:
        run_steps(FOLDER)
    except Missing as error:
        print(f"| sanitize: not run: {error}")
        return 0 if given.if_possible else 2
    except (CannotBuild, Finding) as error:
        print(f"| sanitize: failed\n{error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
