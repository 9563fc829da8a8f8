"""CPU usage during a measurement: by component, and of the rest of the machine."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.backends import Backends

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSplit:
    """CPU seconds, user and system, since the start of each component."""

    server_s: float
    loop_s: float  # of the server: the event loop thread; the rest is the JVM and commits
    datanodes_s: float
    namenode_s: float
    idle_s: float  # of all cores
    all_s: float

    def __sub__(self, before: "CpuSplit") -> "CpuSplit":
        then = asdict(before)
        return CpuSplit(**{name: now - then[name] for name, now in asdict(self).items()})

    def notes(self, puts: int, generator_s: float) -> dict[str, float]:
        """Microseconds per put, and the CPU share of other processes."""
        hdfs_s = self.datanodes_s + self.namenode_s
        others_s = self.all_s - self.idle_s - self.server_s - hdfs_s - generator_s
        return {
            "server_us_per_put": self.server_s / puts * 1e6,
            "of_it_loop_us": self.loop_s / puts * 1e6,
            "datanodes_us_per_put": self.datanodes_s / puts * 1e6,
            "namenode_us_per_put": self.namenode_s / puts * 1e6,
            "generator_us_per_put": generator_s / puts * 1e6,
            "others_share": others_s / self.all_s,
            "idle_share": self.idle_s / self.all_s,
        }


def cpu_split(server_pid: int, backends: Backends) -> CpuSplit:
    """The current values."""
    hdfs = backends.fleet.hdfs
    spent_s = {name: _cpu_s(f"{hdfs.daemon(name).pid}") for name in hdfs.names()}
    namenode_s = spent_s.pop("nn")
    cores = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]  # guests are in user
    ticks = [int(number) for number in cores]
    return CpuSplit(
        server_s=_cpu_s(f"{server_pid}"),
        loop_s=_cpu_s(f"{server_pid}/task/{server_pid}"),
        datanodes_s=sum(spent_s.values()),
        namenode_s=namenode_s,
        idle_s=(ticks[3] + ticks[4]) / _TICKS_PER_S,
        all_s=sum(ticks) / _TICKS_PER_S,
    )


def _cpu_s(task: str) -> float:
    numbers = Path(f"/proc/{task}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
