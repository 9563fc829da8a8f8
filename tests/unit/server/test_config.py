"""One TOML file to frozen dataclasses; everything that is wrong is named."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import ConfigError
from opentalos.server.config import Config, load_config, parse_address, parse_config, to_toml

SCRIPT = Path(__file__).parents[3] / "scripts" / "generate_config_reference.py"
ON_HDFS = "[storage]\nfiles = 'hdfs://n/x'\nmeta = 'zookeeper://z'\nrows = 'hbase://z/n'\n"


def test_an_empty_document_gives_the_defaults() -> None:
    assert parse_config({}, "x") == Config()


def test_the_shown_configuration_reads_back_as_itself() -> None:
    config = Config().with_server(data='a "quoted" \\ path', listen="[::1]:0")
    assert parse_config(tomllib.loads(to_toml(config)), "x") == config


@matrix(
    ("text", "complaint"),
    [
        ("[htp]\n", "unknown section [htp]; did you mean http?"),
        (
            "[http]\nbody_bytes_maxx = 1",
            "unknown key body_bytes_maxx; did you mean body_bytes_max?",
        ),
        ("[http]\nzzz = 1", "unknown key zzz; known: body_bytes_max,"),
        ("http = 1", "http must be a section: [http]"),
        ("[http]\nconnections_max = true", "must be an integer of 0 or more, not true"),
        ("[http]\nconnections_max = -1", "must be an integer of 0 or more, not -1"),
        ("[http]\nidle_timeout_s = 'a'", 'idle_timeout_s must be a number of 0 or more, not "a"'),
        ("[log]\nidle_seal_s = nan", "idle_seal_s must be a number of 0 or more, not nan"),
        ("[log]\nidle_seal_s = inf", "idle_seal_s must be a number of 0 or more, not inf"),
        ("[log]\nidle_seal_s = -0.5", "idle_seal_s must be a number of 0 or more, not -0.5"),
        ("[log]\ngroup_commit = 1", "group_commit must be true or false, not 1"),
        ("[log]\nretention_interval_s = 0", "[log] need retention_interval_s > 0"),
        ("[http]\nwrite_stall_s = 0", "write_stall_s > 0"),
        ("[http]\nconnections_max = 0", "[http] need connections_max > 0"),
        ("[message]\nget_bytes_max = 0", "[message] need get_bytes_max > 0"),
        ("[group]\nlease_s = 0", "[group] need lease_s > 0"),
        ("[log]\nlanes = 0", "[log] need 0 < lanes <= lanes_max"),
        ("[server]\nlisten = 'here'", 'listen must be HOST:PORT, not "here"'),
        ("[server]\nlog_level = 'loud'", "log_level must be one of"),
        ("[storage]\naccelerator = 'on'", "accelerator must be one of"),
        ("[storage]\nfiles = 's3://b'", "files must be a URL that begins with file:// or hdfs://"),
        (
            "[storage]\nmeta = 'sqlite'",
            "meta must be a URL that begins with sqlite:// or zookeeper",
        ),
        (
            "[storage]\nmeta = 'zookeeper:///x'",
            'meta must name a host after zookeeper://, not "zookeeper:///x"',
        ),
        ("[storage]\nfiles = 'hdfs://n/x'", "hdfs:// files need zookeeper:// meta"),
        ("[storage]\nrows = 'hbase://z/n'", "hbase:// rows need zookeeper:// meta"),
        ("[storage]\nmeta = 'zookeeper://z'", "zookeeper:// meta needs hbase:// rows"),
        (
            "[storage]\nmeta = 'zookeeper://z'\nrows = 'hbase://z/n'",
            "file:// storage with ZooKeeper needs files_shared = true",
        ),
        (
            "[storage]\nmeta = 'zookeeper://z'\nrows = 'hbase://z/n'\nfiles_shared = true",
            "files_shared needs a path",
        ),
        ("[topic]\npartitions_max = 10001", "partitions_max <= 10000"),
        (
            f"[cluster]\nname = '{'n' * 20}'\n[topic]\npartitions_max = 10000",
            "[cluster] name has 20 characters: with [topic] partitions_max 10000 a name has at "
            "most 19",
        ),
        ("[cluster]\nname = 'a b'", '[cluster] invalid server name "a b"'),
        ("[cluster]\nstop_s = 30", "[cluster] need 5 <= stop_s < restart_s"),
        (
            f"{ON_HDFS}[hdfs]\nblock_bytes = 134217728",
            "[hdfs] block_bytes (134217728) must be 156237824 or more, or [log] segment_bytes_max",
        ),
        (f"{ON_HDFS}[hdfs]\nblock_bytes = 156233728", "must be 156237824 or more"),
        (
            f"{ON_HDFS}[log]\nsegment_bytes_hard_max = 1073741824",
            "[log] segment_bytes_hard_max (1073741824) must be 246415360 or less, or [hdfs] "
            "block_bytes (268435456) larger",
        ),
        ("[message]\nblock_bytes_max = 33554432", "must fit into [http] body_bytes_max"),
        ("[log]\npending_bytes_max = 4194304", "must not exceed [log] pending_bytes_max"),
    ],
)
def test_a_wrong_line_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match="the file: ") as caught:
        parse_config(tomllib.loads(text), "the file")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("files", ["hdfs://n:8020/talos", "file:///mnt/talos"])
def test_a_cluster_is_hdfs_or_shared_files_with_zookeeper_and_hbase(files: str) -> None:
    storage = {"files": files, "meta": "zookeeper://a:1,b:2/t", "rows": "hbase://a:1/talos"}
    config = parse_config({"storage": storage | {"files_shared": files[:4] == "file"}}, "x")
    assert config.storage.clustered
    assert not Config().storage.clustered


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"http": {"a": 1, "b": 2}, "zzz": {}}, "x")
    assert len(str(caught.value).splitlines()) == 3


def test_a_key_is_set_by_one_of_its_names() -> None:
    with pytest.raises(ConfigError, match="slices_max is the former name of shards_max"):
        parse_config({"sds": {"slices_max": 7, "shards_max": 8}}, "x")


def test_a_former_name_of_a_key_is_accepted() -> None:
    assert parse_config({"sds": {"slices_max": 7}}, "x").sds.shards_max == 7


def test_a_missing_or_broken_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[http\n")
    with pytest.raises(ConfigError, match="invalid TOML"):
        load_config(broken)


def test_options_win_over_the_file_and_are_checked() -> None:
    assert Config().with_server(data="d").server.data == "d"
    with pytest.raises(ConfigError, match="HOST:PORT"):
        Config().with_server(listen="nonsense")
    assert Config().with_name("queue-0").cluster.name == "queue-0"
    with pytest.raises(ConfigError, match="server name"):
        Config().with_name("queue.example.org")


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:65536", "a", "a:-1", "a:²"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text, "listen")


def test_an_ipv6_address_loses_its_brackets() -> None:
    assert parse_address("[::1]:80", "listen") == ("::1", 80)


def test_the_reference_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
