"""The jars of backends, fetched once with Maven, and the Java that runs them."""

import fcntl
import hashlib
import shutil
import subprocess
import time
from pathlib import Path

from opentalos.adapters.java_home import find_java
from opentalos.backends.places import BackendError, Say, jars_folder
from opentalos.model.errors import ConfigError

SERVERS = ("hdfs", "zookeeper", "hbase")
PIPELINES = ("druid", "kafka", "yarn")  # used with pipelines; servers do not need them
CLIENT = "client"
JAVA_CLIENTS = "java-clients"  # the official Java clients, for tests
DRUID_KAFKA = "druid-kafka"  # Druid's extension that reads from Kafka
SPARK_KAFKA = "spark-kafka"  # Spark's Kafka connector, for tests and the benchmark

_POMS = Path(__file__).parent / "poms"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_STAMP = ".complete"  # written last: an interrupted fetch is repeated
_FETCH_TIMEOUT_S = 1200
_SIZES_MB = {
    "hdfs": 68,
    "zookeeper": 14,
    "hbase": 117,
    CLIENT: 114,
    "druid": 183,
    "kafka": 54,
    "yarn": 89,
    JAVA_CLIENTS: 15,
    DRUID_KAFKA: 9,
    SPARK_KAFKA: 11,
}
# Excluded from the class path that was tested with both clients in one process.
_LEFT_OUT = {
    CLIENT: "snappy-java,jsr305,commons-logging,audience-annotations,jakarta.activation-api"
}
_REMEDY = "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless maven"


def java() -> str:
    """The path of java. Raises: BackendError: not found, or too old."""
    try:
        return str(find_java())
    except ConfigError as error:
        raise BackendError(str(error)) from error


def fetched(kind: str) -> bool:
    """Whether the jars exist, in the versions of this release."""
    stamp = jars_folder(kind) / _STAMP
    return stamp.exists() and stamp.read_text() == _digest(kind)


def need_jars(kind: str) -> Path:
    """The directory of fetched jars. Raises: BackendError: names the command that fetches them."""
    if not fetched(kind):
        raise BackendError(f"the jars of {kind} are missing; run talos backend fetch {kind}")
    return jars_folder(kind)


def fetch(kind: str, say: Say) -> Path:
    """Fetch the jars of ``kind`` unless they exist; return their directory."""
    folder = jars_folder(kind)
    if fetched(kind):
        return folder
    java()
    maven = shutil.which("mvn")
    if maven is None:
        raise BackendError(f"mvn not found: fetching jars needs Maven; {_REMEDY}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching
        if not fetched(kind):
            say(f"{kind}: fetching {_SIZES_MB[kind]} MB of jars with Maven to {folder}")
            began = time.monotonic()
            _fill(kind, maven, folder)
            say(f"{kind}: fetched in {time.monotonic() - began:.0f} s")
    return folder


def _fill(kind: str, maven: str, folder: Path) -> None:
    fresh = folder.with_name(f"{kind}.fetching")
    shutil.rmtree(fresh, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(_POMS / f"{kind}.xml"), _PLUGIN]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    if kind in _LEFT_OUT:
        command.append(f"-DexcludeArtifactIds={_LEFT_OUT[kind]}")
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            f"could not fetch the jars of {kind}: Maven took more than {_FETCH_TIMEOUT_S} s"
        ) from error
    if done.returncode != 0:
        reasons = [line for line in done.stdout.splitlines() if "ERROR" in line]
        shown = "\n".join(reasons[:3]) or done.stdout.strip()
        raise BackendError(f"could not fetch the jars of {kind} with Maven:\n{shown}")
    (fresh / _STAMP).write_text(_digest(kind))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def _digest(kind: str) -> str:
    whole = (_POMS / f"{kind}.xml").read_bytes() + _LEFT_OUT.get(kind, "").encode()
    return hashlib.sha256(whole).hexdigest()
