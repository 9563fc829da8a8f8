"""Figures of this process and of the machine by psutil; blocking, partly on a file system."""

import socket
from pathlib import Path
from typing import Final, NamedTuple

import psutil

_MS_PER_S: Final = 1_000
_LOOPBACK: Final = "lo"


class ProcessUse(NamedTuple):
    """Use by this process. ``cpu_ms``: of all threads since the start."""

    cpu_ms: float
    memory_bytes: int


class DiskSpace(NamedTuple):
    """A file system."""

    free_bytes: int
    total_bytes: int


class MachineUse(NamedTuple):
    """The machine, as measures of ``wire/metrics/measures.py``: counters and gauges."""

    counters: dict[str, float]
    gauges: dict[str, float]


class ProcessMeter:
    """Reads figures of this process."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def look(self) -> ProcessUse:
        """The current use."""
        with self._process.oneshot():
            times = self._process.cpu_times()
            return ProcessUse(
                (times.user + times.system) * _MS_PER_S,
                self._process.memory_info().rss,
            )


def machine_name() -> str:
    """The machine's host name."""
    return socket.gethostname()


def space_of(path: Path) -> DiskSpace:
    """The file system of a path. Raises: OSError."""
    usage = psutil.disk_usage(str(path))
    return DiskSpace(usage.free, usage.total)


def file_system_of(path: Path) -> str:
    """Type and mount point of the file system that holds an absolute path."""
    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    for parent in (path, *path.parents):
        if str(parent) in mounts:
            return f"{mounts[str(parent)]} at {parent}"
    return "an unknown file system"


def look_at_machine() -> MachineUse:
    """The current use of the machine, without figures that the system does not have."""
    cpu, memory = psutil.cpu_times(), psutil.virtual_memory()
    steal_s = getattr(cpu, "steal", 0.0)
    idle_s = cpu.idle + getattr(cpu, "iowait", 0.0) + steal_s
    # Linux counts guests a second time.
    used_s = sum(cpu) - idle_s - getattr(cpu, "guest", 0.0) - getattr(cpu, "guest_nice", 0.0)
    counters = {"cpu_ms": used_s * _MS_PER_S, "cpu_steal_ms": steal_s * _MS_PER_S}
    counters |= _disk_counters() | _network_counters()
    load_1, load_5, load_15 = psutil.getloadavg()
    gauges = {
        "cpu_cores": float(psutil.cpu_count() or 1),
        "load_1": load_1,
        "load_5": load_5,
        "load_15": load_15,
        "memory_bytes": float(memory.total - memory.available),
        "memory_total_bytes": float(memory.total),
        "swap_bytes": float(psutil.swap_memory().used),
    }
    return MachineUse(counters, gauges | _fullest_disk())


def _disk_counters() -> dict[str, float]:
    disks = psutil.disk_io_counters(perdisk=False)
    if disks is None:
        return {}
    return {
        "disk_read_bytes": float(disks.read_bytes),
        "disk_written_bytes": float(disks.write_bytes),
        "disk_busy_ms": float(getattr(disks, "busy_time", 0)),
    }


def _network_counters() -> dict[str, float]:
    cards = [
        card for name, card in psutil.net_io_counters(pernic=True).items() if name != _LOOPBACK
    ]
    return {
        "net_received_bytes": float(sum(card.bytes_recv for card in cards)),
        "net_sent_bytes": float(sum(card.bytes_sent for card in cards)),
        "net_errors": float(
            sum(card.errin + card.errout + card.dropin + card.dropout for card in cards)
        ),
    }


def _fullest_disk() -> dict[str, float]:
    spaces: list[DiskSpace] = []
    parts = psutil.disk_partitions()
    # Read-only file systems, such as images of packages, are always full.
    places = {part.mountpoint for part in parts if "ro" not in part.opts.split(",")} or {"/"}
    for place in places:
        try:
            spaces.append(space_of(Path(place)))
        except OSError:
            continue  # an unreachable file system
    spaces = [space for space in spaces if space.total_bytes]
    if not spaces:
        return {}
    fullest = min(spaces, key=lambda space: space.free_bytes / space.total_bytes)
    return {
        "disk_free_bytes": float(fullest.free_bytes),
        "disk_total_bytes": float(fullest.total_bytes),
        "disk_used_share": 1 - fullest.free_bytes / fullest.total_bytes,
    }
