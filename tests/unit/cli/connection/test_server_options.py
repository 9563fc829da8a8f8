"""The server of a command: options, profile, environment, data directory."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentalos.cli.connection.profile_file import (
    profiles_path,
    to_toml,
)
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.main import talos
from opentalos.model.errors import ConfigError
from opentalos.sdk import ClientConfig

HERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a profile, in an empty folder."""
    for name in ("TALOS_URL", "TALOS_KEY", "TALOS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def run(*arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(talos, arguments)
    assert done.exit_code == status, done.output
    return done.output


def data_directory(path: Path, url: str = HERE) -> Path:
    path.mkdir(parents=True)
    (path / "server.json").write_text(json.dumps({"url": url}))
    (path / "root.key").write_text("AKDATA:data-secret\n")
    return path


def add(name: str, url: str = HERE, *more: str) -> None:
    run("profile", "add", name, "--url", url, "--as", f"AK{name}:secret", *more)


def test_both_options_need_nothing_else() -> None:
    config = ServerOptions(url=HERE, key="AK1:s").config()
    assert (config.endpoints, config.key_id, config.secret) == ((HERE,), "AK1", "s")


def test_a_key_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("AK1:s\n")
    config = ServerOptions(url=HERE, key_file=file).config()
    assert (config.endpoints, config.key_id, config.secret) == ((HERE,), "AK1", "s")
    monkeypatch.setenv("TALOS_URL", "http://env:1")
    monkeypatch.setenv("TALOS_KEY", "AKENV:e")
    config = ServerOptions(key_file=file).config()
    assert (config.endpoints, config.key_id) == (("http://env:1",), "AK1")


def test_one_key_is_given_and_its_file_is_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--as and --key-file both give a key"):
        ServerOptions(url=HERE, key="AK1:s", key_file=tmp_path).config()
    with pytest.raises(ConfigError, match=r"cannot read key file .*absent: No such file"):
        ServerOptions(url=HERE, key_file=tmp_path / "absent").config()
    (tmp_path / "key").write_text("no colon")
    with pytest.raises(ConfigError, match="must have the form ID:SECRET"):
        ServerOptions(url=HERE, key_file=tmp_path / "key").config()


def test_several_addresses_and_a_ca_are_accepted() -> None:
    config = ServerOptions(url="https://a:1,https://b:2", key="AK1:s", ca="ca.pem").config()
    assert config.endpoints == ("https://a:1", "https://b:2")
    assert config.tls is not None
    assert config.tls.ca_file == "ca.pem"


def test_an_option_replaces_its_part_of_a_data_directory(tmp_path: Path) -> None:
    data = data_directory(tmp_path / "d")
    assert ServerOptions(data=data).config().key_id == "AKDATA"
    assert ServerOptions(data=data, key="AK2:s").config().key_id == "AK2"
    other = ServerOptions(data=data, url="http://other:9").config()
    assert (other.endpoints, other.key_id) == (("http://other:9",), "AKDATA")


def test_the_order_is_options_environment_profile_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_directory(tmp_path / "talos-data")
    assert ServerOptions().config().key_id == "AKDATA"
    add("default")
    add("named")
    assert ServerOptions().config().key_id == "AKdefault"
    monkeypatch.setenv("TALOS_PROFILE", "named")
    assert ServerOptions().config().key_id == "AKnamed"
    monkeypatch.setenv("TALOS_URL", HERE)
    monkeypatch.setenv("TALOS_KEY", "AKENV:s")
    assert ServerOptions().config().key_id == "AKENV"
    assert ServerOptions(key="AKGIVEN:s").config().key_id == "AKGIVEN"
    assert ServerOptions(profile="default").config().key_id == "AKdefault"
    assert ServerOptions(data=Path("talos-data")).config().key_id == "AKDATA"


def test_the_key_of_a_profile_never_goes_to_the_address_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add("default")
    monkeypatch.setenv("TALOS_URL", "http://elsewhere:9")
    with pytest.raises(ConfigError, match="TALOS_KEY"):
        ServerOptions().config()


def test_the_sdk_reads_what_profile_add_writes(home: Path) -> None:
    (home / "ca.pem").parent.mkdir()
    add("work", "https://q-1:9420,https://q-2:9420", "--ca", str(home / "ca.pem"))
    config = ClientConfig.from_profile("work")
    assert config.endpoints == ("https://q-1:9420", "https://q-2:9420")
    assert config.tls is not None
    assert config.tls.ca_file == str(home / "ca.pem")


def test_only_the_owner_reads_the_profiles() -> None:
    add("work")
    assert stat.S_IMODE(profiles_path().stat().st_mode) == 0o600
    assert [path.name for path in profiles_path().parent.iterdir()] == ["profiles.toml"]


def test_profiles_are_listed_without_secrets_changed_and_removed() -> None:
    add("one")
    add("two")
    rows = [json.loads(line) for line in run("profile", "list", "--format", "json").splitlines()]
    assert [(row["name"], row["default"], row["key_id"]) for row in rows] == [
        ("one", True, "AKone"),
        ("two", False, "AKtwo"),
    ]
    assert "secret" not in run("profile", "list")
    run("profile", "use", "two")
    assert ServerOptions().config().key_id == "AKtwo"
    run("profile", "remove", "two")
    with pytest.raises(ConfigError, match="no server is running on talos-data"):
        ServerOptions().config()
    done = CliRunner().invoke(talos, ["profile", "use", "two"])
    assert "profile 'two' does not exist" in str(done.exception)


def test_settings_of_the_sdk_survive_a_change() -> None:
    path = profiles_path()
    path.parent.mkdir(parents=True)
    path.write_text('[profiles.old]\nendpoints = ["http://a:1"]\nkey = "a:b"\ndeadline_s = 3.5\n')
    add("new")
    assert ClientConfig.from_profile("old").deadline_s == 3.5


def test_a_wrong_profile_is_not_written() -> None:
    done = CliRunner().invoke(talos, ["profile", "add", "x", "--url", "q:1", "--as", "a:b"])
    assert "must have the form" in str(done.exception)
    assert not profiles_path().exists()


@pytest.mark.parametrize("text", ["default = ", "profiles = 1", "[profiles]\na = 1"])
def test_a_broken_file_is_named_and_not_changed(text: str) -> None:
    profiles_path().parent.mkdir(parents=True)
    profiles_path().write_text(text)
    done = CliRunner().invoke(talos, ["profile", "add", "x", "--url", HERE, "--as", "a:b"])
    assert "cannot use the profile file" in str(done.exception)
    assert profiles_path().read_text() == text


def test_toml_round_trips() -> None:
    document = {
        "default": 'a "quoted" \\ name\n\x7fé',
        "profiles": {
            "with space": {"endpoints": ["x", "y"], "direct": False, "tls": {"verify_host": True}},
            "empty": {},
            "n": {"deadline_s": 1.5, "connections_max": 3},
        },
    }
    assert tomllib.loads(to_toml(document)) == document
