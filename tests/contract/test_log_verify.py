"""``talos log verify`` on a real data directory: exit code, lines, and the lock."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentalos.adapters.system_clock import SystemClock
from opentalos.cli.commands.server.log_verify import log
from opentalos.model.errors import ConfigError
from opentalos.server.data_directory import DataDirectory

GOLDEN = Path(__file__).parents[1] / "golden" / "data_v1"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def verify(data: Path) -> tuple[int, list[str]]:
    result = CliRunner().invoke(log, ["verify", "--data", str(data)])
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
