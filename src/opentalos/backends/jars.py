"""Jars by Maven, fetched once; and the Java that runs them."""

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
PIPELINES = ("druid", "kafka")  # what the pipelines may be used with; no server needs them
CLIENT = "client"
SPARK_KAFKA = "spark-kafka"  # Spark's Kafka connector, for the benchmark

_POMS = Path(__file__).parent / "poms"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_STAMP = ".complete"  # written last, so a broken fetch is repeated
_FETCH_TIMEOUT_S = 1200
_SIZES_MB = {
    "hdfs": 68,
    "zookeeper": 14,
    "hbase": 117,
    CLIENT: 114,
    "druid": 183,
    "kafka": 54,
    SPARK_KAFKA: 11,
}
# The class path that was tried with both clients in one process has none of these.
_LEFT_OUT = {
    CLIENT: "snappy-java,jsr305,commons-logging,audience-annotations,jakarta.activation-api"
}
_REMEDY = "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless maven"


def java() -> str:
    """The java program. Raises: BackendError if there is none, or if it is too old."""
    try:
        return str(find_java())
    except ConfigError as error:
        raise BackendError(str(error)) from error


def fetched(kind: str) -> bool:
    """The jars are there, in the versions that this release names."""
    stamp = jars_folder(kind) / _STAMP
    return stamp.exists() and stamp.read_text() == _digest(kind)


def need_jars(kind: str) -> Path:
    """The folder of fetched jars. Raises: BackendError naming the command that fetches them."""
    if not fetched(kind):
        raise BackendError(f"the jars of {kind} are not there; run: talos backend fetch {kind}")
    return jars_folder(kind)


def fetch(kind: str, say: Say) -> Path:
    """Fetch the jars of ``kind`` unless they are there, and return their folder."""
    folder = jars_folder(kind)
    if fetched(kind):
        return folder
    java()
    maven = shutil.which("mvn")
    if maven is None:
        raise BackendError(f"no mvn found; need Maven to fetch jars; {_REMEDY}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another fetch may be under way
        if not fetched(kind):
            say(f"{kind}: fetching jars with Maven, {_SIZES_MB[kind]} MB, into {folder}")
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
        raise BackendError(f"Maven took over {_FETCH_TIMEOUT_S} s for {kind}") from error
    if done.returncode != 0:
        reasons = [line for line in done.stdout.splitlines() if "ERROR" in line]
        shown = "\n".join(reasons[:3]) or done.stdout.strip()
        raise BackendError(f"Maven could not fetch the jars of {kind}:\n{shown}")
    (fresh / _STAMP).write_text(_digest(kind))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def _digest(kind: str) -> str:
    whole = (_POMS / f"{kind}.xml").read_bytes() + _LEFT_OUT.get(kind, "").encode()
    return hashlib.sha256(whole).hexdigest()
