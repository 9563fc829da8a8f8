"""A real YARN beside the HDFS of the tests, and a folder from which somebody submits to it.

The NodeManagers have addresses and directories of their own, and the environment of a machine that
knows nothing of the checkout. What is submitted stands in the documentation: only addresses and the
number of executors are replaced; what a cluster has in its ``spark-defaults.conf`` is there.
"""

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import psutil
import pyspark
from tests.doc_page import DOCS
from tests.spark.java_classes import QUICK
from tests.spark.pipeline_process import runs
from tests.spark.standalone.standalone_cluster import (
    EXECUTOR,
    Family,
    clean_environment,
    killed,
    make_environment,
)
from tests.waiting import eventually, limit_s

from opentalos.backends.hadoop.yarn import YarnBackend
from opentalos.backends.places import tail_of
from opentalos.backends.ports import HOST

PAGE = "operating/spark-cluster.md"
DRIVER = "org.apache.spark.deploy.yarn.ApplicationMaster"  # of cluster mode, with the driver in it
_BLOCK = re.compile(r"^```\n(export HADOOP_CONF_DIR=.*?)^```$", re.MULTILINE | re.DOTALL)
_SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
_SAID_LINES = 60
_DEFAULTS: Mapping[str, str] = {
    "spark.yarn.jars": f"local:{Path(pyspark.__path__[0]) / 'jars'}/*",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": HOST,
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.yarn.am.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",
}


def submits() -> dict[str, str]:
    """The commands of the documentation by their deploy mode."""
    found = _BLOCK.findall((DOCS / PAGE).read_text())
    by_mode = {text.partition("--deploy-mode ")[2].split()[0]: text for text in found}
    assert by_mode.keys() == {"cluster", "client"}
    return by_mode


class Submitted(Family):
    """The process of spark-submit; what containers say counts as said, too."""

    containers: "YarnCluster"

    def said(self) -> str:
        return f"{super().said()}\n{self.containers.said()}"


class YarnCluster:
    """YARN, and ``folder`` with an environment, a key and what was submitted."""

    def __init__(self, folder: Path, backend: YarnBackend, key: str) -> None:
        self.folder, self.backend = folder, backend
        make_environment(folder)
        (folder / "talos.key").write_text(key)
        defaults = folder / "conf" / "spark-defaults.conf"
        defaults.parent.mkdir()
        defaults.write_text("".join(f"{name} {text}\n" for name, text in _DEFAULTS.items()))
        self._orphans: list[psutil.Process] = []

    def stop(self) -> None:
        """Kill everything, and remove it."""
        left = [*self._orphans, *self.containers("")]
        for name in self.backend.names():
            self.backend.daemon(name).kill()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        eventually(
            "all processes end after SIGKILL", lambda: not any(map(runs, left)), state=lambda: left
        )
        shutil.rmtree(self.backend.home)

    @contextmanager
    def submitted(self, mode: str, replaced: Mapping[str, str], more: str) -> Iterator[Submitted]:
        """The command of the documentation, which ends with ``more`` here."""
        command = submits()[mode].rstrip()
        for old, new in {"/etc/hadoop/conf": str(self.backend.conf_dir), **replaced}.items():
            assert old in command
            command = command.replace(old, new)
        spark = Path(pyspark.__path__[0])
        environment = clean_environment()
        environment |= {
            "SPARK_HOME": str(spark),  # the lean one of other tests has no Python to ship
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "PATH": f"{spark / 'bin'}:{environment['PATH']}",
        }
        shell = ["bash", "-ec", f"{command} {more}"]
        running = Submitted(self.folder, shell, environment, self.folder)
        running.containers = self
        try:
            yield running
        finally:
            running.kill()

    def containers(self, main: str) -> list[psutil.Process]:
        """The processes in containers; with ``main`` only the Java processes that run it."""
        found = []
        for name in self.backend.names()[1:]:
            pid = self.backend.daemon(name).pid
            for process in psutil.Process(pid).children(recursive=True) if pid else ():
                with suppress(psutil.NoSuchProcess):
                    words = process.cmdline()
                    if not main or (process.name() == "java" and any(main in w for w in words)):
                        found.append(process)
        return found

    def executors(self) -> list[psutil.Process]:
        return self.containers(EXECUTOR)

    def driver(self) -> psutil.Process:
        """The Java process of the driver in cluster mode."""
        (found,) = self.containers(DRIVER)
        return found

    def kill(self, process: psutil.Process) -> None:
        """SIGKILL to one process of a container; what it started is left to YARN and itself."""
        self._orphans += process.children(recursive=True)
        killed(process)

    def application(self, submitted: Submitted) -> str:
        """The id that YARN gave to what was submitted."""
        submitted.wait_for("Submitted application application_")
        (found,) = set(_SUBMITTED.findall(submitted.said()))
        return str(found)

    def wait_for_executors(self, submitted: Submitted) -> list[psutil.Process]:
        """Those that run, as soon as there are some."""
        return eventually("an executor runs", self.executors, state=submitted.said)

    def state(self, application: str) -> tuple[str, str]:
        """State and final status, by YARN."""
        app = self._ask(f"apps/{application}")["app"]
        return app["state"], app["finalStatus"]

    def nodes(self, application: str) -> list[str]:
        """On which nodes its attempts ran, in their order."""
        found = self._ask(f"apps/{application}/appattempts")["appAttempts"]["appAttempt"]
        return [item["nodeId"] for item in sorted(found, key=lambda item: item["id"])]

    def end(self, application: str) -> None:
        """As ``yarn application -kill`` does; until nothing of it runs, nor of what was killed."""
        left = [*self._orphans, *self.containers("")]
        user = psutil.Process().username()
        self._ask(f"apps/{application}/state?user.name={user}", {"state": "KILLED"})
        eventually(
            f"all processes of {application} end",
            lambda: not any(map(runs, left)),
            state=lambda: f"{left}\n{self.said()}",
        )

    def container_files(self) -> list[Path]:
        """What NodeManagers keep of containers, logs too, without the unpacked environment."""
        places = (self.backend.home / "data", self.backend.container_logs)
        paths = (path for place in places for path in place.rglob("*"))
        return [path for path in paths if "environment.tar.gz" not in path.parts and path.is_file()]

    def said(self) -> str:
        """What containers have said last."""
        logs = sorted(self.backend.container_logs.rglob("std*"))
        return "\n".join(f"{log}:\n{tail_of(log, _SAID_LINES)}" for log in logs)

    def _ask(self, path: str, given: Mapping[str, str] | None = None) -> dict[str, Any]:
        """YARN's REST."""
        body = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(
            f"{self.backend.web_url}/ws/v1/cluster/{path}",
            data=body,
            method="GET" if given is None else "PUT",
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=limit_s()) as reply:
            return cast("dict[str, Any]", json.load(reply))
