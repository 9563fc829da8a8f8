"""The state file of a migration."""

from pathlib import Path

import pytest

from opentalos.cli.migrate.offset_map import OffsetMap, Run
from opentalos.cli.migrate.state_file import CopiedPartition, CopiedTopic, StateFile, only_user
from opentalos.model.errors import ConfigError


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json")
    assert file.state.topics == {}
    topic = CopiedTopic("a#t#1", "b#t#2", positions={"readers": {0: 4, 1: -1}})
    topic.partitions[3] = CopiedPartition(OffsetMap((Run(100, 0), Run(150, 20))), 25)
    file.state.topics["t"] = topic
    file.save()
    assert StateFile(tmp_path / "state.json").state == file.state
    assert [item.name for item in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"version": 2, "topics": {}}', '{"version": 1, "topics": {"t": {}}}',
        '{"version": 1, "topics": {"t": {"source": "a", "target": "b", "positions": {},'
        ' "partitions": {"0": {"runs": [[5, 1]], "copied": 0}}}}}',
    ],
)  # fmt: skip
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not the state of a migration"):
        StateFile(path)


def test_one_migration_at_a_time_uses_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with only_user(path), pytest.raises(ConfigError, match="another migration"), only_user(path):
        pass
    with only_user(path):
        pass


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write the state file"):
        StateFile(tmp_path / "absent" / "state.json").save()
