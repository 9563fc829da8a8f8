"""Backups of a server whose segments are in its journals, which are copied after the databases."""

from pathlib import Path

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.e2e.test_backup import JOURNALS, LATE, PARTITIONS, TOPIC, read_all
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed

from opentalos.sdk import SimpleProducer, TalosAdmin
from opentalos.server.backup import backup
from opentalos.server.backup.backup import make_backup
from opentalos.server.backup.folder import Copied
from opentalos.server.backup.journals import copy_journals
from opentalos.server.backup.restore import restore_backup
from opentalos.server.config import Config
from opentalos.testing import EmbeddedServer


def restore(config: Config, copy: Path, data: Path) -> None:
    key = Path(config.server.data) / "server.key"
    restore_backup(copy, data, lambda done, total: None, key)


def held(data: Path) -> list[list[bytes]]:
    with EmbeddedServer(data) as server:
        return read_all(server.url)


@pytest.fixture
def without_files(tmp_path: Path) -> Config:
    """The data of a killed server whose segments are in its journal alone."""
    config = '[log]\njournal = "on"\njournal_files_open_max = 2\n'
    server = ServerProcess(tmp_path, config).start()
    with TalosAdmin(config_of(server.url)) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS)
    with SimpleProducer(config_of(server.url), TOPIC) as producer:
        for partition in range(PARTITIONS):
            producer.put([b"%d" % partition], partition=partition)
    server.kill()
    return Config().with_server(data=str(server.data))


def test_segments_without_a_file_are_in_the_backup_of_their_journal(
    without_files: Config, tmp_path: Path
) -> None:
    contents = make_backup(without_files, tmp_path / "copy", lambda done, total: None)
    assert not any(path.endswith(".log") for path in contents)
    restore(without_files, tmp_path / "copy", tmp_path / "restored")
    assert held(tmp_path / "restored") == [[b"0"], [b"1"], [b"2"]]


def test_a_segment_whose_journal_ends_before_it_is_copied_is_not_lost(
    without_files: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the recovery of another opening does, between the databases and the journals."""
    opened: list[list[list[bytes]]] = []

    def copy(files: Path, target: Path) -> dict[str, Copied]:
        if not opened:
            opened.append(held(Path(without_files.server.data)))
        return copy_journals(files, target)

    monkeypatch.setattr(backup, "copy_journals", copy)
    make_backup(without_files, tmp_path / "copy", lambda done, total: None)
    restore(without_files, tmp_path / "copy", tmp_path / "restored")
    assert [held(tmp_path / "restored")] == opened


@pytest.mark.parametrize("config", [JOURNALS, LATE], ids=["files", "late"])
def test_what_begins_after_the_databases_are_copied_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    """Journals are copied later: a partition was opened meanwhile, a log has rolled, a topic is
    new. Such segments would look as if the databases were older than the log.
    """
    server = ServerProcess(tmp_path, config).start()
    client, made = config_of(server.url), [0]

    def put(partition: int, times: int = 1) -> None:
        with SimpleProducer(client, TOPIC) as producer:
            for _ in range(times):
                producer.put([b"x" * 300], partition=partition)

    with TalosAdmin(client) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        put(partition, 3)
    assert server.stop() == 0
    server.start()
    put(0, 3)

    def copy(files: Path, target: Path) -> dict[str, Copied]:
        made[0] += 1
        put(0, 300)  # rolls
        put(1, 3)  # opens
        with TalosAdmin(client) as admin:
            admin.topics.create(f"new{made[0]}", partitions=1)
        with SimpleProducer(client, f"new{made[0]}") as producer:
            producer.put([b"x"])
        return copy_journals(files, target)

    monkeypatch.setattr(backup, "copy_journals", copy)
    make_backup(Config().with_server(data=str(server.data)), tmp_path / "copy", lambda *_: None)
    server.kill()
    restore(Config().with_server(data=str(server.data)), tmp_path / "copy", tmp_path / "restored")
    found = completed([TALOS, "log", "verify", "--data", tmp_path / "restored"])
    assert found.returncode == 0, found.stdout
    assert [len(messages) for messages in held(tmp_path / "restored")][1:] == [3, 3]
    assert len(held(tmp_path / "restored")[0]) >= 6


def test_an_attempt_reads_no_journal_of_a_former_one(
    without_files: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trimmed meanwhile would look new beside the copied databases."""
    left: list[bool] = []

    def copy(files: Path, target: Path) -> dict[str, Copied]:
        left.append((target / "journal").exists())
        copied = copy_journals(files, target)
        if len(left) == 1:
            raise FileNotFoundError(2, "retention removed it", "a file")
        return copied

    monkeypatch.setattr(backup, "copy_journals", copy)
    make_backup(without_files, tmp_path / "copy", lambda done, total: None)
    assert left == [False, False]
    restore(without_files, tmp_path / "copy", tmp_path / "restored")
    assert held(tmp_path / "restored") == [[b"0"], [b"1"], [b"2"]]
