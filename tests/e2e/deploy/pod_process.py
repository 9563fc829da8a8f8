"""A pod of a rendered StatefulSet as a process here: this stands in for the kubelet.

It makes the pod's volumes as folders and writes what ConfigMaps and Secrets hold, resolves the
environment, runs the container's command, asks its probes, and ends it as a pod ends: preStop,
SIGTERM, and SIGKILL after the grace period. Paths of mounts are replaced by those folders, names of
the Services by 127.0.0.1 and a free port. What it does not have is isolation: root file system,
user, limits.
"""

import http.client
import os
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.deploy.chart import NAMESPACE, ROOT, Document, container, only
from tests.server_process import TALOS
from tests.waiting import ended, eventually, scale

from opentalos.backends.ports import free_ports

REFERENCE = re.compile(r"\$\((\w+)\)")
HEALTH_CHECK = "/usr/local/lib/opentalos/healthcheck.py"
VOLUME_MODE = 0o2775  # as a volume is after fsGroup
STDERR_SHOWN_CHARACTERS = 4_000


@dataclass
class PodProcess:
    """Pod ``number`` of the StatefulSet in ``documents``.

    ``files``: what Secrets and other people's ConfigMaps hold, as text by file by name.
    ``environment``: beside that of the container.
    """

    folder: Path
    documents: list[Document]
    number: int = 0
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{only(self.documents, 'StatefulSet')['metadata']['name']}-{self.number}"

    @property
    def pod(self) -> Document:
        found: Document = only(self.documents, "StatefulSet")["spec"]["template"]["spec"]
        return found

    @property
    def url(self) -> str:
        secure = any(volume["name"] == "tls" for volume in self.pod["volumes"])
        return f"{'https' if secure else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> "PodProcess":
        """Run the command, and wait for the startup probe and then the readiness probe."""
        self._make_volumes()
        found = container(self.documents)
        with (self.folder / "stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                [*found["command"], *map(self._local, found["args"])],
                cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip
        for probe in ("startupProbe", "readinessProbe"):
            self._wait_for(probe)
        return self

    def probe(self, name: str) -> bool:
        """Whether a probe of the container succeeds."""
        found = container(self.documents)[name]
        if "exec" in found:
            try:
                done = self._run(found["exec"]["command"], found["timeoutSeconds"])
            except subprocess.TimeoutExpired:
                return False  # as it does for the kubelet
            return done.returncode == 0
        return self._answers(found["httpGet"], found["timeoutSeconds"])

    def delete(self, *, before_term: Callable[[], None] = lambda: None) -> None:
        """End the pod; ``before_term`` runs after preStop.

        AssertionError: preStop failed, the grace period was over, or it ended with another status.
        The grace period is that of a quiet machine.
        """
        assert self.process is not None
        grace_s, began_s = self.pod["terminationGracePeriodSeconds"], time.monotonic()
        command = container(self.documents)["lifecycle"]["preStop"]["exec"]["command"]
        done = self._run(command, grace_s)
        assert (done.returncode, done.stderr) == (0, "")
        before_term()
        self.process.terminate()
        status = ended(self.process, f"{self.name} ends after SIGTERM")
        took_s, self.process = time.monotonic() - began_s, None
        assert status == 0, self.said()
        late = f"ended after {took_s:.0f} s, not {grace_s} s"
        assert took_s < grace_s * scale(), late  # the claim is about time

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def said(self) -> str:
        """The end of the server's log."""
        return (self.folder / "stderr").read_text(errors="replace")[-STDERR_SHOWN_CHARACTERS:]

    def mounted(self, path: str) -> Path:
        """The folder of a mount."""
        return self._mounts()[path]

    def _wait_for(self, probe: str) -> None:
        assert self.process is not None
        process = self.process

        def succeeds() -> bool:
            assert process.poll() is None, self.said()
            return self.probe(probe)

        eventually(f"{probe} of {self.name} succeeds", succeeds, state=self.said)

    def _make_volumes(self) -> None:
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        for mount in container(self.documents)["volumeMounts"]:
            folder = self._mounts()[mount["mountPath"]]
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(VOLUME_MODE)
            for file, text in self._content(volumes.get(mount["name"], {})).items():
                (folder / file).write_text(text)

    def _content(self, volume: Document) -> Mapping[str, str]:
        """Text by file."""
        if "secret" in volume:
            return self.files[volume["secret"]["secretName"]]
        if "configMap" not in volume:
            return {}
        own, name = only(self.documents, "ConfigMap"), volume["configMap"]["name"]
        if name != own["metadata"]["name"]:
            return self.files[name]
        return {file: self._local(text) for file, text in own["data"].items()}

    def _mounts(self) -> dict[str, Path]:
        mounts = container(self.documents)["volumeMounts"]
        return {item["mountPath"]: self.folder / item["name"] for item in mounts}

    def _variables(self) -> dict[str, str]:
        """Of the container; each may refer to those before it."""
        fields = {"metadata.name": self.name, "metadata.namespace": NAMESPACE}
        found: dict[str, str] = {}
        for item in container(self.documents)["env"]:
            if "value" in item:
                found[item["name"]] = REFERENCE.sub(lambda hit: found[hit[1]], item["value"])
            else:
                found[item["name"]] = fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        return {name: self._here(text) for name, text in found.items()}

    def _here(self, text: str) -> str:
        """With this machine's address in place of those of pod, Service and loopback."""
        headless = only(self.documents, "StatefulSet")["spec"]["serviceName"]
        service = self.name.rpartition("-")[0]
        pod = re.escape(f"{self.name}.{headless}")
        names = rf"(?:{pod}|{re.escape(service)})\.{NAMESPACE}\.svc\.cluster\.local"
        text = text.replace("0.0.0.0:9092", "127.0.0.1:0")
        return re.sub(rf"(?:{names}|127\.0\.0\.1|0\.0\.0\.0):9420", f"127.0.0.1:{self.port}", text)

    def _local(self, text: str) -> str:
        """With this machine's paths and addresses, and values in place of $(NAME)."""
        variables, mounts = self._variables(), self._mounts()
        text = REFERENCE.sub(lambda hit: variables[hit[1]], text)
        paths = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True)))
        text = re.sub(rf"(?<![\w./-])({paths})(?![\w.-])", lambda hit: str(mounts[hit[1]]), text)
        check = str(ROOT / "deploy" / "container" / "healthcheck.py")
        return self._here(text.replace(HEALTH_CHECK, check))

    def _environment(self) -> dict[str, str]:
        kept = {name: item for name, item in os.environ.items() if not name.startswith("TALOS_")}
        path = f"{TALOS.parent}:{kept['PATH']}"
        return {**kept, **self.environment, **self._variables(), "PATH": path, "NO_PROXY": "*"}

    def _run(self, command: list[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
        """A command in the container. Raises: subprocess.TimeoutExpired."""
        return subprocess.run(
            [self._local(word) for word in command],
            cwd=self.folder, env=self._environment(), capture_output=True, text=True,
            timeout=timeout_s * scale(),
        )  # fmt: skip

    def _answers(self, request: Document, timeout_s: float) -> bool:
        """As the kubelet asks: it verifies no certificate, and 200 to 399 is success."""
        assert request["port"] == "http"
        timeout_s *= scale()
        connection: http.client.HTTPConnection
        if request["scheme"] == "HTTPS":
            trust = ssl.create_default_context()
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=timeout_s, context=trust
            )
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", request["path"])
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
