"""Checks of the machine: processors, memory, Python and packages, open files, clock, Java."""

import importlib.metadata
import os
import platform
import re
import resource
import sys
import time
from collections.abc import Iterable
from typing import Final

import psutil

from opentalos import __version__
from opentalos.adapters.java_home import find_java
from opentalos.cli.counts import counted
from opentalos.cli.doctor.finding import Finding
from opentalos.model.errors import ConfigError

_MIB: Final = 1 << 20
_MEMORY_MIN: Final = 512 * _MIB
_PYTHON_MIN: Final = (3, 11)
_OPEN_FILES_MIN: Final = 4_096  # a server keeps a file open per active partition and connection
_YEAR_2025_S: Final = 1_735_689_600
_YEAR_2100_S: Final = 4_102_444_800
_TIME_SERVICES: Final = {"chronyd", "ntpd", "systemd-timesyncd", "ntpsec", "timed", "openntpd"}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def check_machine() -> Finding:
    """Kind of machine, processors, memory."""
    memory = psutil.virtual_memory()
    text = (
        f"{platform.system()} {platform.release()} {platform.machine()}, "
        f"{counted(os.cpu_count() or 1, 'processor')}, {memory.total // _MIB} MiB of memory, "
        f"{memory.available // _MIB} MiB available"
    )
    if memory.available < _MEMORY_MIN:
        return Finding("machine", "warning", text, "a server wants 512 MiB available")
    return Finding("machine", "ok", text)


def check_python() -> Finding:
    """The interpreter that a server would run on."""
    text = f"Python {platform.python_version()}, {sys.executable}"
    if sys.version_info < _PYTHON_MIN:
        return Finding("python", "problem", text, "install Python 3.11 or newer")
    return Finding("python", "ok", text)


def versions() -> dict[str, str]:
    """Installed versions of the package and of all that it may use, by name."""
    found = {"opentalos": __version__}
    for need in importlib.metadata.requires("opentalos") or ():
        if name := _NAME.match(need):
            found[name[0]] = _version(name[0])
    return {name: version for name, version in sorted(found.items()) if version}


def check_packages(extras: Iterable[str]) -> Finding:
    """Whether all packages are there that the base install and these extras need."""
    wanted = tuple(f'extra == "{extra}"' for extra in extras)
    missing, count = [], 0
    for need in importlib.metadata.requires("opentalos") or ():
        plain = need.replace("'", '"')
        name = _NAME.match(need)
        if name and ("extra ==" not in plain or plain.endswith(wanted)):
            count += 1
            if not _version(name[0]) and "sys_platform" not in need:
                missing.append(name[0])
    if missing:
        named = f"[{','.join(extras)}]" if wanted else ""
        return Finding(
            "packages", "problem", f"missing: {', '.join(missing)}",
            f"pip install 'opentalos{named}'",
        )  # fmt: skip
    return Finding("packages", "ok", f"opentalos {__version__}, with {count} packages it needs")


def check_open_files() -> Finding:
    """The limit of descriptors; a server raises the soft one to the hard one itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"limits of open files: soft {_limit(soft)}, hard {_limit(hard)}"
    if hard != resource.RLIM_INFINITY and hard < _OPEN_FILES_MIN:
        return Finding(
            "files", "problem", text,
            f"raise the hard limit to {_OPEN_FILES_MIN} or more: ulimit -Hn, or LimitNOFILE= in "
            "the systemd unit",
        )  # fmt: skip
    return Finding("files", "ok", text)


def check_clock(server_s: float | None) -> Finding:
    """Whether the time may be right; ``server_s``: Unix seconds of a running server, if known."""
    now_s = time.time()
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
    if not _YEAR_2025_S < now_s < _YEAR_2100_S:
        return Finding("clock", "problem", f"the clock says {shown}", "set the clock")
    if server_s is not None and abs(server_s - now_s) > _CLOCK_DIFFERENCE_MAX_S:
        return Finding(
            "clock", "problem",
            f"the clock says {shown}, that of the server differs by {server_s - now_s:+.0f} s",
            "synchronise both clocks; signatures of calls expire",
        )  # fmt: skip
    if not _synchronised():
        return Finding(
            "clock", "warning", f"the clock says {shown}; no time service was found here",
            "run chrony, ntpd or systemd-timesyncd, unless the host of this container does",
        )  # fmt: skip
    return Finding("clock", "ok", f"the clock says {shown}; a time service runs")


_CLOCK_DIFFERENCE_MAX_S: Final = 30.0


def check_java(extras: Iterable[str]) -> Finding:
    """Java for clusters and Spark."""
    try:
        return Finding("java", "ok", f"{find_java()}")
    except ConfigError as error:
        return Finding("java", "problem", str(error), f"needed for {', '.join(extras)}")


def _synchronised() -> bool:
    for process in psutil.process_iter(["name"]):
        if process.info["name"] in _TIME_SERVICES:
            return True
    return False


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)
