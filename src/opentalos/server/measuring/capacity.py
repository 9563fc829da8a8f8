"""How many segments a server may have open: from the process's memory and descriptors."""

import os
from pathlib import Path

from opentalos.model.limits import SEGMENTS_HARD_FACTOR
from opentalos.server.config import Config
from opentalos.server.measuring.descriptor_plan import descriptor_plan

# Of an open segment beyond the same partition closed: index, producers, file and their objects.
# Source: bench/start_figures.py.
SEGMENT_BYTES = 16 << 10
MEMORY_SHARE = 8  # open segments may take one in so many bytes of the memory
SEGMENTS_MIN, SEGMENTS_MAX = 256, 65_536
# Of the Java heap for each open segment: its file needs about 0.2, and two threads.
# Source: docs/operating/hdfs.md#sizing.
HDFS_HEAP_MIB = 1
HDFS_FILES_MIN = 64
# Of a server with a journal on HDFS, however many partitions it has: each is a pipeline, a lease,
# and a thread of every DataNode.
HDFS_FILES_MAX = 8
FILES_PER_JOURNAL = 2  # while it continues in the next one
FILES_OF_MERGES = 1
# Planned moves for each file that late segments may have open: each makes one and closes it, which
# took up to 0.4 s on a busy machine, and the last of them is still to be sealed within
# ``handover_s``.
MOVES_PER_FILE = 4
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_bytes() -> int:
    """The machine's memory, or what the process's control group may use of it."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        try:
            limit = path.read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():
            found = min(found, int(limit))
    return found


def journal(config: Config) -> str:
    """[log] journal, chosen if it is ``auto``: on a disk of one server it has proven itself."""
    if config.log.journal != "auto":
        return config.log.journal
    return "off" if config.storage.clustered else "on"


def journal_files_open_max(config: Config) -> int:
    """[log] journal_files_open_max, on HDFS chosen if it is 0 and a journal is written."""
    log = config.log
    if log.journal_files_open_max or not (log.journaled and config.storage.on_hdfs):
        return log.journal_files_open_max
    return max(1, HDFS_FILES_MAX - FILES_PER_JOURNAL * log.journals - FILES_OF_MERGES)


def moves_at_once(config: Config) -> int:
    """[cluster] moves_at_once, or fewer if segments take turns at a few files."""
    files = journal_files_open_max(config)
    most = config.cluster.moves_at_once
    return min(most, MOVES_PER_FILE * files) if config.log.journaled and files else most


def segments_open_max(config: Config, memory: int) -> int:
    """[log] segments_open_max, computed if it is 0.

    On a disk an open segment costs memory alone, because the store gives descriptors back.
    """
    if config.log.segments_open_max:
        return config.log.segments_open_max
    if config.storage.on_hdfs and not journal_files_open_max(config):
        fitting = max(HDFS_FILES_MIN, config.jvm.heap_mb // HDFS_HEAP_MIB // SEGMENTS_HARD_FACTOR)
        return min(fitting, max(1, descriptor_plan(config).hdfs_files // SEGMENTS_HARD_FACTOR))
    fitting = memory // MEMORY_SHARE // SEGMENT_BYTES // SEGMENTS_HARD_FACTOR
    return min(SEGMENTS_MAX, max(SEGMENTS_MIN, fitting))
