"""URLs of HDFS, and what the JVM's start refuses before a JVM is needed."""

import sys
from pathlib import Path

import pytest

from opentalos.adapters.hdfs.configuration import parse_hdfs_url
from opentalos.adapters.jvm import configured_folder, default_jars, start_jvm
from opentalos.model.errors import ConfigError
from opentalos.model.limits import HdfsLimits, JvmLimits


@pytest.mark.parametrize(
    ("url", "uri", "root"),
    [
        ("hdfs://nn.example.org:9820/talos", "hdfs://nn.example.org:9820", "/talos"),
        ("hdfs://name-service/a/b/", "hdfs://name-service", "/a/b"),
        ("hdfs://h:1", "hdfs://h:1", ""),
        ("hdfs://h:1/", "hdfs://h:1", ""),
    ],
)
def test_a_url_names_a_namenode_and_a_folder(url: str, uri: str, root: str) -> None:
    location = parse_hdfs_url(url)
    assert (location.uri, location.root) == (uri, root)


@pytest.mark.parametrize(
    "url",
    [
        "file:///x", "hdfs://", "hdfs:///x", "hdfs://h:port/x", "hdfs://h:99999/x",
        "hdfs://user@h:1/x", "hdfs://h:1/a b", "hdfs://h:1/a/../b", "hdfs://h:1//a",
        "hdfs://h:1/x?y", "hdfs://h:1/ä",
    ],
)  # fmt: skip
def test_a_url_without_a_valid_hdfs_path_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not an HDFS URL"):
        parse_hdfs_url(url)


def test_without_jpype_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jpype", None)
    with pytest.raises(ConfigError, match=r"pip install 'opentalos\[cluster\]'"):
        start_jvm(JvmLimits(), [])


def test_jars_are_looked_for_in_the_data_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_jars() == tmp_path / "opentalos" / "jars" / "client"


def test_a_configuration_folder_comes_from_the_settings_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert configured_folder("", "HADOOP_CONF_DIR") is None
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert configured_folder("", "HADOOP_CONF_DIR") == tmp_path
    with pytest.raises(ConfigError, match=r"conf_dir .*missing is not a folder"):
        configured_folder(str(tmp_path / "missing"), "HADOOP_CONF_DIR")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"replicas_min": 4}, "need"),
        ({"replicas_min": 0}, "need"),
        ({"block_bytes": 4096}, "need"),
        ({"block_bytes": (1 << 20) + 1}, "need"),
        ({"commit_timeout_s": 0.0}, "need"),
        ({"kerberos_principal": "talos@EXAMPLE.ORG"}, "set both kerberos_principal and"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        HdfsLimits(**settings)  # type: ignore[arg-type]
