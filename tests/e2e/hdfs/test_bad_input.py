"""What a server reports when HDFS, the JVM or its jars are not as configured."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import RunningBackends
from tests.e2e.hdfs.conftest import WRITER, Place
from tests.waiting import completed, scale

from opentalos.adapters.hdfs import open_hdfs_file_store
from opentalos.model.errors import ConfigError, StoreUnavailable
from opentalos.model.limits import HdfsLimits, JvmLimits
from opentalos.model.message import Durability

pytestmark = pytest.mark.backend

OPEN_S = 30.0 * scale()  # with the start of the JVM
# Starts the JVM with the jar of HBase in front, as a careless class path would.
WRONG_ORDER = """
import sys
from pathlib import Path
import jpype
from opentalos.adapters.jvm import start_jvm
from opentalos.model.limits import JvmLimits
jars = sorted(map(str, Path(sys.argv[1]).glob("*.jar")), key=lambda jar: "hbase" not in jar)
jpype.startJVM(classpath=jars)
start_jvm(JvmLimits(), [])
"""
SIGNALS = """
import os, signal, sys, time
from opentalos.adapters.jvm import start_jvm
from opentalos.model.limits import JvmLimits
seen = []
signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
start_jvm(JvmLimits(jars=sys.argv[1]), [])
start_jvm(JvmLimits(jars=sys.argv[1]), [])
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
for number in (signal.SIGTERM, signal.SIGINT):
    os.kill(os.getpid(), number)
    while number not in seen:
        time.sleep(0.01)
print(seen == [signal.SIGTERM, signal.SIGINT])
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python process of its own: a JVM cannot be started twice."""
    return completed([sys.executable, *arguments], env={**os.environ, **environment})


def test_a_refused_user_learns_the_path_and_the_user(backends: RunningBackends) -> None:
    settings = json.dumps({"conf_dir": str(backends.hdfs_conf_dir)})
    url = f"{backends.hdfs_url}/not-yours/talos"
    done = run(str(WRITER), url, "p", str(backends.jars), settings, HADOOP_USER_NAME="guest")
    assert done.stdout.startswith("end ConfigError: "), done.stderr
    assert "/not-yours/talos" in done.stdout
    assert "user=guest" in done.stdout
    assert done.stdout.count("\n") == 1


def test_missing_jars_are_reported_with_the_command_that_fetches_them(
    backends: RunningBackends, tmp_path: Path
) -> None:
    done = run(str(WRITER), backends.hdfs_url, "p", str(tmp_path), "{}")
    assert "ConfigError" in done.stdout, done.stderr
    assert "talos backend fetch hdfs" in done.stdout
    assert str(tmp_path) in done.stdout


def test_hadoop_classes_of_the_hbase_jar_are_refused(backends: RunningBackends) -> None:
    done = run("-c", WRONG_ORDER, str(backends.jars))
    assert "hflush would hang" in done.stderr
    assert "hbase-shaded-client" in done.stderr


def test_signals_stay_with_python(backends: RunningBackends) -> None:
    assert run("-c", SIGNALS, str(backends.jars)).stdout == "True\n"


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "no-such-host.invalid:9820", "no-such-nameservice"]
)
async def test_an_unreachable_namenode_is_reported_soon(
    backends: RunningBackends, address: str
) -> None:
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable, match=address.partition(":")[0]):
        await open_hdfs_file_store(
            f"hdfs://{address}/x",
            JvmLimits(jars=str(backends.jars)),
            HdfsLimits(conf_dir=str(backends.hdfs_conf_dir), call_timeout_s=5.0),
        )
    assert time.monotonic() - began_s < OPEN_S  # the claim is about time


async def test_a_port_that_is_no_namenode_is_reported_soon(place: Place) -> None:
    port = place.hdfs.ports["nn-http"]
    with pytest.raises(StoreUnavailable, match=str(port)):
        await open_hdfs_file_store(
            f"hdfs://127.0.0.1:{port}/x",
            JvmLimits(jars=str(place.backends.jars)),
            place.limits(call_timeout_s=5.0),
        )


async def test_a_file_in_place_of_the_folder_is_reported(place: Place) -> None:
    store = await place.store()
    await (await store.create("taken", durability=Durability.SYNCED)).close()
    with pytest.raises(ConfigError, match="taken"):
        await open_hdfs_file_store(
            f"{place.url}/taken", JvmLimits(jars=str(place.backends.jars)), place.limits()
        )
