"""The Helm chart: what it makes is valid, agrees with the image, and the server takes it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from tests.e2e.deploy.chart import (
    NAMESPACE,
    OPERATOR,
    RELEASE,
    ROOT,
    ChartError,
    Document,
    check,
    container,
    example,
    of_kind,
    only,
    render,
)
from tests.server_process import TALOS
from tests.waiting import completed

from opentalos.cli.commands.server.serve import serve
from opentalos.server.config import Config, load_config

DOCKERFILE = (ROOT / "deploy" / "container" / "Dockerfile").read_text()
STORAGE = {"files": "hdfs://n:8020/q", "meta": "zookeeper://z:2181/q", "rows": "hbase://z:2181/q"}
CLUSTER: Document = {"mode": "cluster", "storage": STORAGE}
EVERYTHING: Document = {
    **CLUSTER,
    "replicas": 5,
    "image": {"repository": "registry.example.org/queue", "tag": "1", "pullSecrets": ["pull"]},
    "config": {
        "log": {"segment_bytes_max": 2_000_000_000, "close_s": 2.5},
        "hdfs": {"block_bytes": 4_294_967_296},
        "cluster": {"stop_s": 30.5, "restart_s": 90, "restart": "wait"},
        "metrics": {"access": "open"},
        "server": {"log_level": "debug"},
    },
    "hadoopConfigMap": "hadoop",
    "advertise": "$(POD_NAME).queue.example.org:9420",
    "stop": {"drain": True, "drainSeconds": 120, "endpointsSeconds": 7},
    "persistence": {"size": "2Gi", "storageClass": "fast"},
    "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"team": "queue"}}},
    "networkPolicy": {
        "enabled": True,
        "clients": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}],
    },
    "serviceAccountName": "queue",
    "priorityClassName": "high",
    "podLabels": {"team": "queue"},
    "podAnnotations": {"note": "x"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "queue", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
}
VALUES: dict[str, Document] = {
    "defaults": {},
    "single.yaml": example("single.yaml"),
    "certificates": {"tls": {"secretName": "t", "clientCertificates": "required"}},
    "without a volume": {"persistence": {"enabled": False}},
    "cluster": CLUSTER,
    "cluster.yaml": example("cluster.yaml"),
    "everything": EVERYTHING,
}


@pytest.fixture(scope="module", params=VALUES)
def documents(request: pytest.FixtureRequest) -> list[Document]:
    return render(VALUES[request.param])


def written(documents: list[Document], folder: Path) -> Path:
    """The configuration file of the ConfigMap."""
    path = folder / "talos.toml"
    path.write_text(only(documents, "ConfigMap")["data"]["talos.toml"])
    return path


def test_every_document_has_only_fields_that_kubernetes_knows(documents: list[Document]) -> None:
    assert len({(item["kind"], item["metadata"]["name"]) for item in documents}) == len(documents)
    for document in documents:
        if not document["apiVersion"].startswith(OPERATOR):
            check(document)


@pytest.mark.parametrize(
    ("path", "value"), [("spec.replica", 1), ("spec.replicas", "x"), ("spec.template.spec.pod", {})]
)
def test_the_check_finds_a_wrong_field(path: str, value: object) -> None:
    document = only(render({}), "StatefulSet")
    *folders, last = path.split(".")
    place: Any = document
    for name in folders:
        place = place[name]
    place[last] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        check(document)


def test_the_server_accepts_command_and_configuration(
    documents: list[Document], tmp_path: Path
) -> None:
    config = written(documents, tmp_path)
    done = completed([TALOS, "config", "check", config])
    assert done.returncode == 0, done.stderr
    command, *options = container(documents)["args"]
    assert (container(documents)["command"], command) == (["talos"], "serve")
    parsed = serve.make_context("serve", options).params
    assert str(parsed["config_path"]) == "/etc/opentalos/talos.toml"
    clustered = load_config(config).storage.clustered
    assert parsed["name"] == ("$(POD_NAME)" if clustered else None)


def test_a_pod_has_the_time_that_its_end_takes(documents: list[Document], tmp_path: Path) -> None:
    pod = only(documents, "StatefulSet")["spec"]["template"]["spec"]
    command = container(documents)["lifecycle"]["preStop"]["exec"]["command"]
    waits = sum(map(int, re.findall(r"(?:timeout|sleep) (\d+)", command[-1])))
    stop_s = load_config(written(documents, tmp_path)).cluster.stop_s
    assert waits >= 5
    assert pod["terminationGracePeriodSeconds"] >= waits + stop_s + 10


def test_every_mounted_volume_exists_and_every_name_is_one(documents: list[Document]) -> None:
    found = only(documents, "StatefulSet")
    pod = found["spec"]["template"]["spec"]
    names = [item["name"] for item in pod["volumes"]]
    names += [item["metadata"]["name"] for item in found["spec"].get("volumeClaimTemplates", ())]
    assert sorted(names) == sorted(item["name"] for item in container(documents)["volumeMounts"])
    services = {item["metadata"]["name"]: item["spec"] for item in of_kind(documents, "Service")}
    peers = services[found["spec"]["serviceName"]]
    assert (peers["clusterIP"], peers["publishNotReadyAddresses"]) == ("None", True)
    labels = found["spec"]["template"]["metadata"]["labels"]
    selectors = [item["selector"] for item in services.values()]
    selectors += [found["spec"]["selector"]["matchLabels"]]
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        for item in of_kind(documents, kind):
            selector = item["spec"].get("selector") or item["spec"]["podSelector"]
            selectors.append(selector["matchLabels"])
    assert all(selector.items() <= labels.items() for selector in selectors)


def test_the_pod_is_bound_as_the_image_wants(documents: list[Document]) -> None:
    pod = only(documents, "StatefulSet")["spec"]["template"]["spec"]
    user, group = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[-1]
    rights = pod["securityContext"]
    assert (str(rights["runAsUser"]), str(rights["runAsGroup"])) == (user, group)
    assert rights["fsGroup"] == rights["runAsGroup"]
    assert rights["runAsNonRoot"] is True
    own = container(documents)["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False
    ports = [str(port["containerPort"]) for port in container(documents)["ports"]]
    assert f"EXPOSE {' '.join(ports)}\n" in DOCKERFILE
    mounts = [item["mountPath"] for item in container(documents)["volumeMounts"]]
    assert re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)[0] in mounts
    secrets = [item["secret"] for item in pod["volumes"] if "secret" in item]
    assert {item["defaultMode"] for item in secrets} == {0o440}
    probes = [container(documents)[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    for probe in probes:
        if "exec" in probe:
            assert f" {probe['exec']['command'][1]}\n" in DOCKERFILE


def test_the_tag_is_a_target_of_the_dockerfile_and_a_cluster_has_a_budget() -> None:
    for values in ({}, CLUSTER):
        documents = render(values)
        _, tag = container(documents)["image"].split(":")
        assert re.search(rf"^FROM \S+ AS {tag}$", DOCKERFILE, re.MULTILINE), tag
        budgets = of_kind(documents, "PodDisruptionBudget")
        assert [item["spec"]["maxUnavailable"] for item in budgets] == [1] * bool(values)
        replicas = only(documents, "StatefulSet")["spec"]["replicas"]
        assert replicas == (3 if values else 1)


def test_values_reach_the_configuration_with_their_types(tmp_path: Path) -> None:
    config = load_config(written(render(EVERYTHING), tmp_path))
    assert config.log.segment_bytes_max == 2_000_000_000
    assert (config.cluster.stop_s, config.cluster.restart) == (30.5, "wait")
    assert (config.server.log_level, config.server.log_format) == ("debug", "json")
    assert config.console.enabled
    assert (config.metrics.access, config.metrics.topics_max) == ("open", 50)
    defaults = tomllib.loads(written(render({}), tmp_path).read_text())
    assert set(defaults) == {"server", "kafka", "console", "metrics"}
    quoted = 'a "quoted" \\ <word> ü'
    single = load_config(
        written(render({"config": {"oidc": {"principal_claim": quoted}}}), tmp_path)
    )
    assert single.oidc.principal_claim == quoted
    assert Config().cluster.stop_s == 15  # the template's, if a file has none


def test_prometheus_asks_each_pod_with_key_and_certificate() -> None:
    found = only(render(example("single.yaml")), "ServiceMonitor")
    assert found["apiVersion"] == "monitoring.coreos.com/v1"
    (peers,) = (
        item
        for item in of_kind(render(example("single.yaml")), "Service")
        if item["spec"].get("clusterIP") == "None"
    )
    wanted = found["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= peers["metadata"]["labels"].items()
    assert found["spec"]["endpoints"] == [
        {
            "port": peers["spec"]["ports"][0]["name"],
            "path": "/metrics",
            "interval": "15s",
            "scheme": "https",
            "basicAuth": {
                "username": {"name": "queue-metrics", "key": "username"},
                "password": {"name": "queue-metrics", "key": "password"},
            },
            "tlsConfig": {
                "ca": {"secret": {"name": "queue-tls", "key": "ca.crt"}},
                "serverName": f"{RELEASE}-opentalos.{NAMESPACE}.svc",
            },
        }
    ]
    assert set(found["spec"]) == {"selector", "endpoints"}


MONITORED = {"serviceMonitor": {"enabled": True}}
WITH_KEY = {"serviceMonitor": {"enabled": True, "basicAuthSecret": "m"}}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replica": 3}, "replica"),
        ({"image": {"name": "x"}}, "name"),
        ({"mode": "many"}, "mode"),
        ({"mode": "cluster"}, "files"),
        ({"mode": "cluster", "storage": {**STORAGE, "meta": "sqlite://"}}, "meta"),
        ({**CLUSTER, "replicas": 0}, "replicas"),
        ({"persistence": {"size": "much"}}, "size"),
        ({"config": {"log": {"lanes": [1]}}}, "lanes"),
        ({"advertise": "http://queue"}, "advertise"),
        ({"tls": {"clientCertificates": "required"}}, "tls.secretName"),
        ({"metrics": MONITORED}, "basicAuthSecret"),
        ({"metrics": WITH_KEY}, "secrets_over_http"),
    ],
)
def test_values_that_cannot_work_are_refused(values: Document, complaint: str) -> None:
    with pytest.raises(ChartError, match=complaint):
        render(values)
