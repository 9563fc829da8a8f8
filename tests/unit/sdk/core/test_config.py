"""Configurations from code, the environment and a profile file."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import ConfigError
from opentalos.sdk.core.config import ClientConfig, TlsSettings

PROFILES = """
default = "local"

[profiles.local]
endpoints = ["http://127.0.0.1:8080/"]
key = "AK:s:e:c"

[profiles.cluster]
endpoints = "https://a:1, https://b:2"
key_file = "{key_file}"
request_timeout_s = 3.5
tls = {{ ca_file = "ca.pem", verify_host = false }}
"""


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text("AK2:secret2\n")
    path = tmp_path / "profiles.toml"
    path.write_text(PROFILES.format(key_file=(tmp_path / "key").as_posix()))
    return path


def test_a_profile_is_read(profiles: Path) -> None:
    local = ClientConfig.from_profile(path=profiles)
    assert local.endpoints == ("http://127.0.0.1:8080",)
    assert (local.key_id, local.secret) == ("AK", "s:e:c")
    cluster = ClientConfig.from_profile("cluster", path=profiles, deadline_s=5.0)
    assert cluster.endpoints == ("https://a:1", "https://b:2")
    assert (cluster.key_id, cluster.secret) == ("AK2", "secret2")
    assert cluster.tls == TlsSettings(ca_file="ca.pem", verify_host=False)
    assert (cluster.request_timeout_s, cluster.deadline_s) == (3.5, 5.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no default"),
        ('default = "x"', "no profile 'x'"),
        ("profiles = 3", "no default"),
        ('default = "x"\n[profiles.x]\nkey = "a:b"', "endpoints is missing"),
        ('default = "x"\n[profiles.x]\nendpoints = "http://a:1"', "key_file is missing"),
        ('default = "x"\n[profiles.x]\nendpoints = "http://a:1"\nkey = "a"', "ID:SECRET"),
        ('default = "x"\n[profiles.x]\nendpoints = "http://a:1"\nkey = "a:b"\nsped = 1', "'sped'"),
        ('default = "x"\n[profiles.x]\nendpoints = "http://a:1"\nkey_file = "/no/file"', "No such"),
        ('default = "x"\n[profiles.x]\nendpoints = 7\nkey = "a:b"', "profile x"),
        ('default = "x"\n[profiles.x]\nendpoints = "http://a:1"\nkey = 7', "profile x"),
        (
            'default = "x"\n[profiles.x]\nendpoints = "http://a:1"\nkey = "a:b"\ntls = {a = 1}',
            "'a'",
        ),
        ("default = ", "cannot use"),
    ],
)
def test_an_unusable_profile_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        ClientConfig.from_profile(path=path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no profile file"):
        ClientConfig.from_profile(path=tmp_path / "none.toml")


def test_the_environment_names_endpoints_and_key() -> None:
    environment = {"TALOS_URL": "http://a:1,http://b:2", "TALOS_KEY": "AK:secret"}
    found = ClientConfig.from_environment(environment, connections_max=3)
    assert found.endpoints == ("http://a:1", "http://b:2")
    assert (found.key_id, found.secret, found.connections_max) == ("AK", "secret", 3)
    with pytest.raises(ConfigError, match="TALOS_KEY"):
        ClientConfig.from_environment({"TALOS_URL": "http://a:1"})
    with pytest.raises(ConfigError, match="ID:SECRET"):
        ClientConfig.from_environment({"TALOS_URL": "http://a:1", "TALOS_KEY": "AK"})


@matrix(
    "bad",
    [
        {"endpoints": ()},
        {"endpoints": ("a:1",)},
        {"endpoints": ("ftp://a:1",)},
        {"endpoints": ("http://a:1/v1",)},
        {"endpoints": ("http://u:p@a:1",)},
        {"endpoints": ("http://a:99999",)},
        {"endpoints": ("http://",)},
        {"endpoints": ("http://a:1", "https://a:2")},
        {"key_id": ""},
        {"secret": ""},
        {"connect_timeout_s": 0.0},
        {"deadline_s": -1.0},
        {"backoff_s": 9.0},
        {"connections_max": 0},
        {"reply_bytes_max": 0},
    ],
)
def test_a_value_out_of_its_range_is_refused(bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {"endpoints": ("http://a:1",), "key_id": "AK", "secret": "secret"}
    with pytest.raises(ConfigError):
        ClientConfig(**{**good, **bad})


def test_the_secret_is_not_shown() -> None:
    shown = repr(ClientConfig(endpoints=("http://a:1",), key_id="AK", secret="hush"))
    assert "AK" in shown
    assert "hush" not in shown
