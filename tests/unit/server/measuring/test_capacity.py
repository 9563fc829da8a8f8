"""Open files and segments follow what the process may have."""

import resource
from dataclasses import replace

import pytest

from opentalos.model.limits import SEGMENTS_HARD_FACTOR, LogLimits
from opentalos.server.config import Config, StorageSettings
from opentalos.server.measuring import capacity
from opentalos.server.measuring.capacity import (
    append_files_max,
    journal,
    journal_files_open_max,
    memory_bytes,
    moves_at_once,
    raise_open_files,
    segments_open_max,
)

GIB = 1 << 30


def test_a_usual_machine_has_thousands_of_open_segments() -> None:
    assert segments_open_max(Config(), GIB) >= 4_096
    assert segments_open_max(Config(), 16 * GIB) == capacity.SEGMENTS_MAX
    assert segments_open_max(Config(), GIB // 64) == capacity.SEGMENTS_MIN


def test_a_configured_number_of_open_segments_is_taken_as_it_is() -> None:
    config = replace(Config(), log=LogLimits(segments_open_max=24))
    assert segments_open_max(config, 16 * GIB) == 24


def test_open_segments_on_hdfs_follow_the_java_heap() -> None:
    storage = StorageSettings(
        files="hdfs://nn:8020/talos", meta="zookeeper://zk:2181/talos", rows="hbase://zk:2181/talos"
    )
    config = replace(Config(), storage=storage)
    assert segments_open_max(config, 16 * GIB) == config.jvm.heap_mb // SEGMENTS_HARD_FACTOR


def test_a_single_server_has_a_journal_unless_it_is_off() -> None:
    storage = StorageSettings(
        files="file:///shared",
        files_shared=True,
        meta="zookeeper://zk:2181/talos",
        rows="hbase://zk:2181/talos",
    )
    cluster = replace(Config(), storage=storage)
    assert (journal(Config()), journal(cluster)) == ("on", "off")
    assert journal(replace(Config(), log=LogLimits(journal="off"))) == "off"
    assert journal(replace(cluster, log=LogLimits(journal="on"))) == "on"


def test_a_journal_on_hdfs_leaves_few_files_to_segments() -> None:
    storage = StorageSettings(
        files="hdfs://nn:8020/talos", meta="zookeeper://zk:2181/talos", rows="hbase://zk:2181/talos"
    )
    plain = replace(Config(), storage=storage)
    assert journal_files_open_max(plain) == 0
    config = replace(plain, log=LogLimits(journal="on"))
    slots = journal_files_open_max(config)
    assert 0 < slots + 2 * config.log.journals + 1 <= 8
    assert segments_open_max(config, 16 * GIB) == capacity.SEGMENTS_MAX
    assert journal_files_open_max(replace(Config(), log=LogLimits(journal="on"))) == 0
    chosen = replace(config, log=LogLimits(journal="on", journal_files_open_max=20))
    assert journal_files_open_max(chosen) == 20
    # Partitions that move take turns at these files; the last one must not wait for too long.
    assert moves_at_once(plain) == plain.cluster.moves_at_once == 64
    assert moves_at_once(config) == 4 * slots
    assert moves_at_once(chosen) == 64


def test_segments_leave_descriptors_for_connections() -> None:
    assert append_files_max(65_536, 10_000) == 65_536 - 10_000 - capacity.OTHER_FILES
    assert append_files_max(4_096, 10_000) == 2_048 - capacity.OTHER_FILES
    assert append_files_max(256, 10_000) == capacity.APPEND_FILES_MIN


@pytest.mark.parametrize(
    ("soft", "hard", "asked"),
    [
        (1_024, 524_288, 524_288),
        (1_024, resource.RLIM_INFINITY, capacity.OPEN_FILES_MAX),
        (4_096, 4_096, None),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, asked: int | None
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    assert raise_open_files() == (asked or soft)
    assert set_to == ([(asked, hard)] if asked else [])


def test_a_kernel_that_allows_less_than_the_hard_limit_gets_what_it_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As macOS with kern.maxfilesperproc, and Linux with a lowered fs.nr_open."""

    def setrlimit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > 245_760:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert 122_880 <= raise_open_files() <= 245_760


def test_the_memory_is_that_of_the_machine_or_less() -> None:
    assert 64 << 20 <= memory_bytes() <= 1 << 50
