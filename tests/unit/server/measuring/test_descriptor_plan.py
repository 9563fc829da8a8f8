"""What each use of descriptors may take of those that the process may have."""

import logging
import resource
from dataclasses import replace

import pytest

from opentalos.adapters.local.descriptors import CALL_DESCRIPTORS, PLENTY
from opentalos.model.errors import ConfigError
from opentalos.model.limits import HttpLimits
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.server.config import Config, StorageSettings
from opentalos.server.measuring import descriptor_plan as measuring
from opentalos.server.measuring.descriptor_plan import (
    CLUSTER,
    FIXED,
    PEERS_BUSY,
    DescriptorPlan,
    check_descriptors,
    limit_min,
    raise_open_files,
)
from opentalos.server.measuring.descriptor_plan import descriptor_plan as plan_of

SINGLE = Config()
CLUSTERED = replace(
    SINGLE,
    storage=StorageSettings(
        files="hdfs://nn:8020/talos", meta="zookeeper://zk:2181/talos", rows="hbase://zk:2181/talos"
    ),
)
SHARED = replace(
    CLUSTERED, storage=replace(CLUSTERED.storage, files="file:///shared", files_shared=True)
)


class Limit:
    """How many descriptors the process may have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.descriptors = 0
        monkeypatch.setattr(measuring, "raise_open_files", lambda: self.descriptors)

    def plan(self, descriptors: int, config: Config = SINGLE) -> DescriptorPlan:
        self.descriptors = descriptors
        return plan_of(config)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    return Limit(monkeypatch)


@pytest.mark.parametrize("config", [SINGLE, SHARED, CLUSTERED])
def test_all_uses_together_have_room_below_every_limit(limit: Limit, config: Config) -> None:
    for descriptors in (limit_min(config), 200, 256, 1_000, 4_096, 20_000, 65_536, 1 << 20):
        plan = limit.plan(max(descriptors, limit_min(config)), config)
        files = plan.files
        taken = FIXED + files.append_max + files.readers_max + files.calls_max * CALL_DESCRIPTORS
        taken += plan.connections
        if config.storage.clustered:
            taken += CLUSTER + PEERS_BUSY * plan.peer_connections
        assert taken <= plan.limit
        assert min(files.append_max, files.readers_max, files.calls_max, plan.connections) >= 2
        all_files = files.append_max + files.readers_max
        assert plan.connections >= min(15_000, all_files - 1)


def test_a_usual_limit_reduces_nothing(limit: Limit) -> None:
    for descriptors in (20_000, 524_288):
        plan = limit.plan(descriptors)
        assert plan.connections == 10_000 + 5_000
        assert plan.files.append_max > 4_000
        assert plan.files._replace(append_max=0) == PLENTY._replace(append_max=0)
    assert limit.plan(524_288, CLUSTERED).peer_connections == 64


def test_a_small_limit_leaves_connections_and_files(limit: Limit) -> None:
    plan = limit.plan(150)
    assert plan.connections >= 40
    assert plan.files.append_max >= 30
    assert plan.files.readers_max >= 15
    assert limit.plan(100).connections >= 25


def test_a_command_opens_files_with_any_limit(limit: Limit) -> None:
    for config in (SINGLE, CLUSTERED):
        assert min(limit.plan(20, config).files) >= 2


def test_a_port_that_does_not_listen_gets_nothing(limit: Limit) -> None:
    config = replace(SINGLE, kafka=KafkaSettings(listen=""))
    assert limit.plan(1 << 20, config).connections == 10_000


def test_a_limit_below_what_is_configured_is_one_warning(
    limit: Limit, caplog: pytest.LogCaptureFixture
) -> None:
    limit.descriptors = 150
    assert check_descriptors(SINGLE).limit == 150
    (line,) = caplog.messages
    assert "limit of 150 open files" in line
    assert "of 15000 configured" in line
    assert "(ulimit -n, LimitNOFILE= in a systemd unit) to 32768" in line
    assert caplog.records[0].levelno == logging.WARNING
    caplog.clear()
    limit.descriptors = 32_768  # as it said
    check_descriptors(SINGLE)
    few = replace(
        SINGLE, http=HttpLimits(connections_max=20), kafka=KafkaSettings(connections_max=20)
    )
    limit.descriptors = 150
    check_descriptors(few)
    assert caplog.messages == []


@pytest.mark.parametrize("config", [SINGLE, CLUSTERED])
def test_a_limit_with_which_nothing_works_is_refused(limit: Limit, config: Config) -> None:
    limit.descriptors = limit_min(config) - 1
    with pytest.raises(ConfigError, match=rf"needs at least {limit_min(config)}; raise its limit"):
        check_descriptors(config)
    limit.descriptors += 1
    check_descriptors(config)


@pytest.mark.parametrize(
    ("soft", "hard", "asked"),
    [
        (1_024, 524_288, 524_288),
        (1_024, resource.RLIM_INFINITY, measuring.OPEN_FILES_MAX),
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
