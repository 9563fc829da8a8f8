"""``talos log verify`` on a real data directory: exit code, lines, and the lock."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentalos.adapters.system_clock import SystemClock
from opentalos.cli.commands.server.log_verify import log
from opentalos.model.errors import ConfigError, TalosError
from opentalos.server.data_directory import DataDirectory

GOLDEN = Path(__file__).parents[1] / "golden" / "data_v1"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def verify(data: Path, *options: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(log, ["verify", "--data", str(data), *options])
    if isinstance(result.exception, ConfigError):
        raise result.exception
    return result.exit_code, result.stdout.splitlines()


def test_a_sound_directory_ends_with_0_and_a_summary(data: Path) -> None:
    code, lines = verify(data)
    assert code == 0
    assert lines == ["checked 2 partitions, 6 segments, 80 blocks, 11512 bytes: 0 problems"]


def test_a_damaged_block_ends_with_1_and_one_line_that_names_it(data: Path) -> None:
    path = sorted((data / "log").glob("*/1/*.log"))[0]
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    code, lines = verify(data)
    assert code == 1
    assert len(lines) == 2
    for part in ("partition 1", path.name, "position", "offset 5", "CRC"):
        assert part in lines[0]
    assert lines[-1].endswith("1 problem")


def test_a_directory_in_use_is_refused_with_the_pid(data: Path) -> None:
    directory = DataDirectory(data, SystemClock())
    with pytest.raises(ConfigError, match="the server with pid"):
        verify(data)
    directory.close()
    assert verify(data)[0] == 0


def test_a_directory_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not the data directory"):
        verify(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_json_has_the_place_of_each_finding_and_the_topic_by_name(data: Path) -> None:
    path = sorted((data / "log").glob("*/1/*.log"))[0]
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    code, lines = verify(data, "--format", "json")
    found, summary = map(json.loads, lines)
    assert code == 1
    assert found.pop("text").startswith(f"topic {found['topic']} partition 1: ")
    owner, _, name = found["topic"].partition("/")
    assert owner
    assert name
    assert found == {
        "kind": "damage",
        "topic": found["topic"],
        "topic_uuid": path.parts[-3],
        "partition": 1,
        "file": str(path.relative_to(data / "log")),
        "position": found["position"],
        "offset": 58,
    }
    assert 0 < found["position"] < len(content)
    assert summary["kind"] == "summary"
    assert (summary["partitions"], summary["problems"], summary["rebuildable"]) == (2, 1, 0)


def test_a_missing_side_index_is_no_damage_and_repair_rebuilds_it(data: Path) -> None:
    index = sorted((data / "log").glob("*/0/*.idx"))[0]
    index.unlink()
    code, lines = verify(data)
    assert code == 0
    assert lines[0].startswith("rebuildable: ")
    assert index.name in lines[0]
    assert lines[-1].endswith(": 0 problems, 1 rebuildable file")
    assert not index.exists()
    code, lines = verify(data, "--repair")
    assert code == 0
    assert lines[-1].endswith(": 0 problems, 1 rebuilt file")
    assert index.exists()
    code, lines = verify(data)
    assert (code, len(lines)) == (0, 1)


def change_records(data: Path, statement: str) -> None:
    with sqlite3.connect(data / "meta.sqlite") as db:
        assert db.execute(statement).rowcount > 0
    db.close()


def adopt(data: Path, *given: str) -> tuple[int, str]:
    result = CliRunner().invoke(log, ["adopt", *given, "--data", str(data)])
    if isinstance(result.exception, TalosError):
        return 1, str(result.exception)
    return result.exit_code, result.output


def test_a_topic_without_a_record_is_damage_until_it_is_adopted(data: Path) -> None:
    uuid = next((data / "log").glob("*/0")).parent.name
    code, text = adopt(data, uuid, "alice/again")
    assert code == 1
    assert "is in the catalogue already" in text
    change_records(data, "DELETE FROM records WHERE path LIKE 'topics/%'")
    code, lines = verify(data)
    assert code == 1
    assert lines[0].startswith("files of a topic that the catalogue does not know: topic " + uuid)
    assert "stored: partitions 0-1, segments: " in lines[0]
    assert f"talos log adopt {uuid} OWNER/NAME" in lines[0]
    assert lines[-1].endswith(": 1 problem")
    code, lines = verify(data, "--format", "json")
    found = json.loads(lines[0])
    assert (found["kind"], found["topic"], found["topic_uuid"]) == ("damage", "", uuid)
    assert (found["partition"], found["position"], found["offset"]) == (-1, -1, -1)
    assert found["file"].startswith(f"{uuid}/0/")
    code, text = adopt(data, uuid, "alice/again", "--partitions", "3")
    assert (code, text) == (
        0,
        f"adopted topic alice/again ({uuid}) with 3 partitions, partitioner murmur2, "
        "retention 365 d\n",
    )
    code, lines = verify(data)
    assert (code, len(lines)) == (0, 1)


def test_adoption_names_partitions_that_need_a_repair(data: Path) -> None:
    uuid = next((data / "log").glob("*/0")).parent.name
    change_records(data, "DELETE FROM records WHERE path LIKE 'topics/%'")
    change_records(data, f"DELETE FROM records WHERE path = 'log/{uuid}/1'")
    code, text = adopt(data, uuid, "alice/again", "--partitioner", "official")
    assert code == 0
    assert "with 2 partitions, partitioner official" in text
    (repair,) = text.splitlines()[1:]
    assert repair.startswith("partition 1 has messages, but no manifest: before the server starts")
    assert repair.endswith(f"talos log repair {uuid}/1")


@pytest.mark.parametrize("damage", ["value = X'7B'", "checksum = checksum + 1"])
def test_a_damaged_row_of_a_manifest_is_replaced_by_a_repair(data: Path, damage: str) -> None:
    assert verify(data)[0] == 0, "it upgrades the file to the format with checksums"
    change_records(data, f"UPDATE records SET {damage} WHERE path LIKE 'log/%/1'")
    code, lines = verify(data)
    assert code == 1
    assert "is damaged; stop the server" in lines[0]
    result = CliRunner().invoke(log, ["repair", "--all", "--data", str(data)])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == "1 partition repaired"
    assert verify(data)[0] == 0


def test_a_repair_says_what_it_leaves_out(data: Path) -> None:
    first, gap, _ = sorted((data / "log").glob("*/1/*.log"))
    partition = f"{first.parent.parent.name}/1"
    gap.unlink()
    options = ["repair", partition, "--data", str(data), "--accept-loss"]
    tried = CliRunner().invoke(log, [*options, "--dry-run"])
    assert f"would leave out {partition}/{first.name}" in tried.output
    assert not list((data / "log").glob("aside/*/*/*"))
    done = CliRunner().invoke(log, options)
    assert f"left out and set aside {partition}/{first.name}" in done.output
    (copy,) = (data / "log").glob("aside/*/*/*")
    assert copy.name.endswith(f"-repair-{first.name}")
    assert copy.read_bytes() == first.read_bytes()


def test_a_catalogue_that_cannot_be_read_is_damage(data: Path) -> None:
    change_records(data, "UPDATE records SET value = X'7B' WHERE path LIKE 'topics/%'")
    code, lines = verify(data)
    assert code == 1
    assert lines[0].startswith("the catalogue of topics: record topics/")


def test_a_directory_in_use_is_not_changed_by_an_adoption(data: Path) -> None:
    directory = DataDirectory(data, SystemClock())
    code, text = adopt(data, "1234", "alice/again")
    assert code == 1
    assert "the server with pid" in text
    directory.close()
