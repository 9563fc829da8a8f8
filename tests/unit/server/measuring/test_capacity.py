"""Open segments follow the memory, and on HDFS the descriptors, that the process may have."""

from dataclasses import replace

import pytest

from opentalos.model.limits import SEGMENTS_HARD_FACTOR, LogLimits
from opentalos.server.config import Config, StorageSettings
from opentalos.server.measuring import capacity, descriptor_plan
from opentalos.server.measuring.capacity import (
    journal,
    journal_files_open_max,
    memory_bytes,
    moves_at_once,
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


def test_open_segments_on_hdfs_follow_the_java_heap_and_the_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = StorageSettings(
        files="hdfs://nn:8020/talos", meta="zookeeper://zk:2181/talos", rows="hbase://zk:2181/talos"
    )
    config = replace(Config(), storage=storage)
    limit = 65_536
    monkeypatch.setattr(descriptor_plan, "raise_open_files", lambda: limit)
    assert segments_open_max(config, 16 * GIB) == config.jvm.heap_mb // SEGMENTS_HARD_FACTOR
    limit = 1_024  # half of what is left, three and more for each file
    assert 16 <= segments_open_max(config, 16 * GIB) <= 64


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


def test_the_memory_is_that_of_the_machine_or_less() -> None:
    assert 64 << 20 <= memory_bytes() <= 1 << 50
