"""Server keys come from private files or a command; whatever is wrong is named, never a key."""

import base64
import sys
from pathlib import Path

import pytest

from opentalos.adapters.encryption_keys import OUTPUT_BYTES_MAX, read_encryption_keys
from opentalos.model.errors import ConfigError
from opentalos.model.settings.security import EncryptionSettings

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def key_file(folder: Path, name: str, key: bytes, mode: int = 0o600) -> str:
    path = folder / name
    path.write_bytes(base64.b64encode(key) + b"\n")
    path.chmod(mode)
    return str(path)


def printing(code: str) -> str:
    return f'"{sys.executable}" -c "{code}"'


def test_without_settings_there_is_no_key() -> None:
    assert read_encryption_keys(EncryptionSettings()) == {}


def test_the_key_that_wraps_comes_first(tmp_path: Path) -> None:
    settings = EncryptionSettings(
        key_file=key_file(tmp_path, "new", KEY), other_key_file=key_file(tmp_path, "old", OTHER)
    )
    found = read_encryption_keys(settings)
    assert list(found.items()) == [("key_file", KEY), ("other_key_file", OTHER)]


def test_a_command_prints_the_key_and_no_shell_reads_it() -> None:
    text = base64.b64encode(KEY).decode()
    settings = EncryptionSettings(key_command=printing(f"print('{text}')"))
    assert read_encryption_keys(settings) == {"key_command": KEY}
    with pytest.raises(ConfigError, match="cannot use the key") as caught:
        read_encryption_keys(EncryptionSettings(key_command=f"echo {text} && true"))
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/nowhere/kms", "cannot run"),
        ("'open quote", "cannot run"),
        (" ", "cannot run"),
        (printing("raise SystemExit(3)"), "status 3"),
        (printing(f"print('x' * {OUTPUT_BYTES_MAX * 100})"), "printed more than"),
        (printing("print('short')"), "not base64"),
    ],
)
def test_a_command_that_fails_is_named(command: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_encryption_keys(EncryptionSettings(key_command=command))


def test_a_command_that_hangs_is_ended() -> None:
    command = printing("import time; time.sleep(600)")
    settings = EncryptionSettings(key_command=command, key_command_timeout_s=0.05)
    with pytest.raises(ConfigError, match="did not end within"):
        read_encryption_keys(settings)


def test_a_file_that_others_can_read_or_of_another_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        read_encryption_keys(EncryptionSettings(key_file=key_file(tmp_path, "a", KEY, 0o644)))
    with pytest.raises(ConfigError, match="16 bytes, need 32"):
        read_encryption_keys(EncryptionSettings(key_file=key_file(tmp_path, "b", KEY[:16])))
    with pytest.raises(ConfigError, match="cannot read"):
        read_encryption_keys(EncryptionSettings(key_file=str(tmp_path / "absent")))


@pytest.mark.parametrize(
    "settings", [{"key_file": "a", "key_command": "b"}, {"other_key_file": "a"}]
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="key_file"):
        EncryptionSettings(**settings)  # type: ignore[arg-type]
