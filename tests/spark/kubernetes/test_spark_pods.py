"""Spark on Kubernetes as far as it goes without one: pods by Spark's own code, image and templates.

No pod is started and no image is built.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from tests.doc_page import DOCS
from tests.e2e.deploy.chart import ROOT, Document, check
from tests.spark.java_classes import QUICK
from tests.waiting import completed

from opentalos.adapters.java_home import lean_spark_home, spark_java_home
from opentalos.backends.ports import HOST, free_ports
from opentalos.cli.spark_submit import talos_pipeline

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "container" / "Dockerfile"
SCRIPT = DEPLOY / "container" / "spark.sh"
PAGE = "operating/spark-cluster.md"
KEY = "talos-key"
_BLOCK = re.compile(r"^```\n(kubectl apply.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """The words of the commands of the documentation."""
    (block,) = _BLOCK.findall((DOCS / PAGE).read_text())
    return [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]


def submission() -> list[str]:
    (found,) = [words[1:] for words in commands() if words[0] == "spark-submit"]
    return found


def documents(path: Path) -> list[Document]:
    return [item for item in yaml.safe_load_all(path.read_text()) if item]


def environment(**more: str) -> dict[str, str]:
    """Of the image, as far as it is here."""
    home = spark_java_home()
    return {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(home),
        "SPARK_HOME": str(lean_spark_home(Path(pyspark.__path__[0]))),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


def run(*command: str | Path, environment: dict[str, str], given: str = "") -> tuple[int, str]:
    """Exit status, and what it said."""
    done = completed(
        command, cwd=ROOT, env=environment, input=given,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """What Spark makes of the documented submission."""
    done = completed(
        [sys.executable, "-m", "tests.spark.kubernetes.spark_pods"], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        input=json.dumps(submission()), check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def container(pod: Document) -> Document:
    (found,) = pod["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(pod: Document) -> dict[str, str]:
    """Of its container; what Kubernetes would fill in has its path there."""
    return {
        item["name"]: item.get("value") or item["valueFrom"]["fieldRef"]["fieldPath"]
        for item in container(pod)["env"]
    }


def test_pods_and_what_belongs_to_them_follow_the_schemas_of_kubernetes(
    made: dict[str, Any],
) -> None:
    files = sorted((DEPLOY / "spark").glob("*.yaml"))
    found = [made["driver"], made["executor"], *made["beside"]]
    found += [item for path in files for item in documents(path)]
    kinds = {item["kind"] for item in found}
    assert {"Pod", "Service", "ServiceAccount", "Role", "RoleBinding"} <= kinds
    for item in found:
        check(item)


def test_driver_and_executor_run_as_the_user_of_the_image_without_rights(
    made: dict[str, Any],
) -> None:
    stage = (
        (DEPLOY / "container" / "Dockerfile").read_text().partition("FROM ${BASE} AS spark\n")[2]
    )
    user = re.findall(r"^USER (\d+):(\d+)$", stage, re.MULTILINE)[0]
    for pod in (made["driver"], made["executor"]):
        context = pod["spec"]["securityContext"]
        assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user
        assert container(pod)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_driver_has_the_documented_account_key_and_program(made: dict[str, Any]) -> None:
    driver = made["driver"]
    accounts = {
        item["metadata"]["name"]
        for item in documents(DEPLOY / "spark" / "access.yaml")
        if item["kind"] == "ServiceAccount"
    }
    assert {driver["spec"]["serviceAccountName"]} == accounts
    (created,) = [words for words in commands() if "secret" in words]
    assert created[:5] == ["kubectl", "create", "secret", "generic", KEY]
    file = created[5].partition("--from-file=")[2].partition("=")[0]
    (volume,) = [item for item in driver["spec"]["volumes"] if "secret" in item]
    assert volume["secret"]["secretName"] == KEY
    mounts = {item["name"]: item["mountPath"] for item in container(driver)["volumeMounts"]}
    arguments = container(driver)["args"]
    assert arguments[arguments.index("--key-file") + 1] == f"{mounts[volume['name']]}/{file}"
    program = next(word for word in arguments if word.startswith("local://"))
    copied = program.removeprefix("local://")
    assert f'pipeline submit-file)" {copied}' in (DEPLOY / "container" / "Dockerfile").read_text()


def test_an_executor_has_neither_the_key_nor_access_to_kubernetes(made: dict[str, Any]) -> None:
    executor = made["executor"]
    assert executor["spec"]["automountServiceAccountToken"] is False
    assert not [item for item in executor["spec"]["volumes"] if "secret" in item]
    assert "/etc/talos" not in json.dumps(executor)


def test_memory_and_cores_are_those_of_the_command(made: dict[str, Any]) -> None:
    asked = container(made["executor"])["resources"]["requests"]
    assert asked == {"cpu": "4", "memory": "3072Mi"}  # 2 GiB and half of it
    assert container(made["driver"])["resources"]["requests"]["memory"] == "1536Mi"
    users = {variables(made[name])["HADOOP_USER_NAME"] for name in ("driver", "executor")}
    assert users == {"talos"}


def test_the_start_script_runs_the_program_of_a_driver(made: dict[str, Any]) -> None:
    arguments: list[str] = container(made["driver"])["args"]
    at = arguments.index("--class")
    assert arguments[:2] == ["driver", "--properties-file"]
    (name,) = {"SPARK_DRIVER_BIND_ADDRESS"} & variables(made["driver"]).keys()
    program = f"local://{talos_pipeline.__file__}"
    words = [arguments[0], "--master", "local[1]", "--driver-java-options", QUICK]
    words += [*arguments[at : at + 2], program, "list"]
    status, said = run(SCRIPT, *words, environment=environment(**{name: HOST}))
    assert status == 0, said
    assert "archive.path" in said


def test_the_start_script_runs_an_executor_with_the_environment_of_its_pod(
    made: dict[str, Any], tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    given = variables(made["executor"])
    local = {
        "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{HOST}:{port}",
        "SPARK_EXECUTOR_MEMORY": "256m",  # of the 2 GiB of the command
        "SPARK_EXECUTOR_POD_IP": HOST,
        "SPARK_EXECUTOR_POD_NAME": "executor-1",
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_CONF_DIR": str(tmp_path),
    }
    assert local.keys() <= given.keys()
    arguments = container(made["executor"])["args"]
    status, said = run(SCRIPT, *arguments, environment=environment(**{**given, **local}))
    assert status != 0
    assert f"Failed to connect to /{HOST}:{port}" in said, said
    assert "Usage:" not in said
