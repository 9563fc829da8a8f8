"""The Compose files: valid by the specification, and the product accepts what they tell it."""

import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from scripts.fetch_promtool import promtool
from tests.doc_page import serving
from tests.e2e.rest.client import authorization, rest
from tests.raw_client import connection_to
from tests.server_process import TALOS, Key
from tests.waiting import completed

from opentalos.cli.commands.server.serve import serve
from opentalos.server.config import load_config

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "compose"
FILES = ("single.yml", "cluster.yml")
LOGIN = "/console/login"


def document(name: str) -> dict[str, Any]:
    """A file, with its merged mappings."""
    found = yaml.safe_load((FOLDER / name).read_text())
    assert isinstance(found, dict)
    return found


def servers(name: str) -> dict[str, dict[str, Any]]:
    return {key: service for key, service in document(name)["services"].items() if "talos" in key}


@pytest.mark.parametrize("name", FILES)
def test_the_files_follow_the_specification(name: str) -> None:
    PyCompose.from_json(json.dumps(document(name))).validate()


@pytest.mark.parametrize("name", FILES)
def test_the_server_accepts_its_command_and_configuration(name: str) -> None:
    found = servers(name)
    assert found
    for service in found.values():
        command, *options = service["command"]
        assert command == "serve"
        parsed = serve.make_context("serve", list(options)).params
        config = next(item for item in service["volumes"] if "/etc/opentalos/talos.toml" in item)
        path = FOLDER / config.split(":")[0]
        done = completed([TALOS, "config", "check", path])
        assert done.returncode == 0, done.stderr
        loaded = load_config(path).with_server(advertise=parsed["advertise"])
        assert str(parsed["config_path"]) == config.split(":")[1]
        assert loaded.server.data == "/var/lib/opentalos"
        assert parsed["root_key_file"].name in service["secrets"]
        assert loaded.console.enabled
        assert loaded.metrics.topics_max > 0  # else dashboards show no topic and no tenant
        stop_s = loaded.cluster.stop_s
        assert int(service["stop_grace_period"].removesuffix("s")) > stop_s


def test_each_member_of_the_cluster_has_an_address_and_a_volume_of_its_own() -> None:
    found = servers("cluster.yml")
    assert len(found) == 3
    for name, service in found.items():
        assert f"--advertise={name}:9420" in service["command"]
        assert f"{name}:/var/lib/opentalos" in service["volumes"]
    services = document("cluster.yml")["services"]
    storage = tomllib.loads((FOLDER / "conf" / "cluster.toml").read_text())["storage"]
    for url in (storage["files"], storage["meta"], storage["rows"]):
        assert re.search(r"//(\w+):", url)[1] in services, url  # type: ignore[index]


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_mounted_exist_and_ports_are_of_this_machine(name: str) -> None:
    found = document(name)
    for service in found["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (FOLDER / source).exists(), source
            else:
                assert source in found["volumes"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), port


def test_prometheus_reads_its_configuration(tmp_path: Path) -> None:
    tool = promtool()
    assert tool is not None, "no promtool: make setup fetches it from Debian's archive"
    made = (FOLDER / "conf" / "prometheus.yml").read_text()
    secret = tmp_path / "secret"
    secret.write_text("x")
    places = {
        "/run/secrets/root-secret": secret,
        "/etc/prometheus/targets.yml": FOLDER / "conf" / "targets-cluster.yml",
        "/etc/prometheus/alerts.yml": ROOT / "deploy" / "prometheus" / "alerts.yml",
    }
    for place, path in places.items():
        assert place in made
        made = made.replace(place, str(path))
    config = tmp_path / "prometheus.yml"
    config.write_text(made)
    done = completed([tool, "check", "config", config])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_made_keys_open_the_server(tmp_path: Path) -> None:
    script = tmp_path / "make-secrets.sh"
    script.write_text((FOLDER / "make-secrets.sh").read_text())
    script.chmod(0o755)
    for _ in range(2):  # the second run keeps what the first made
        completed([script], check=True)
    secrets = tmp_path / "secrets"
    assert secrets.stat().st_mode & 0o077 == 0
    key_id, secret = (secrets / "root-key").read_text().split(":")
    assert (key_id, secret) == ("root", (secrets / "root-secret").read_text())
    config = FOLDER / "conf" / "single.toml"
    command = f"talos serve --config {config} --data s --root-key-file secrets/root-key"
    command += " --kafka-listen 127.0.0.1:0"
    with serving(tmp_path, command) as address:
        server = SimpleNamespace(port=int(address.rpartition(":")[2]))
        headers = authorization(Key(key_id, secret))
        assert rest(server, "GET", "topics", headers=headers).status == 200
        replied = connection_to(server.port, None)
        replied.request("GET", "/console/topics")
        reply = replied.getresponse()
        assert (reply.status, reply.headers["Location"].partition("?")[0]) == (303, LOGIN)
        replied.close()
