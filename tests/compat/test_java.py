"""The official Java clients of Talos and SDS, unmodified, in every call that they have."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import NO_NETWORK, sdk_environment
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed

from opentalos.backends.jars import JAVA_CLIENTS, fetched, java, need_jars

PROGRAMS = NO_NETWORK.parent / "java_programs"
EXAMPLES = "com.xiaomi.infra.galaxy.sds.client.examples"
CALLS_MIN = 1_000
GROUP_MESSAGES = 5_000
# A quarter of what is expected: one digest in sixteen begins with a zero.
SHORT_DIGESTS_OF_REQUESTS = 1 / 64
# The clients use a class of Java that Java 9 and later hide.
EXPORTS = "java.xml/com.sun.org.apache.xerces.internal.impl.dv.util=ALL-UNNAMED"

TALOS_CALLS = set(
    "addSubResourceName addTopicPartitionNumber changeTopicAttribute createTopic deleteTopic"
    " deleteTopicQuota deleteUserQuota describeTopic getMessage getPartitionOffset"
    " getPartitionsOffset getPermission getServiceVersion getTopicOffset listPermission listTopics"
    " listUserQuota lockPartition lockWorker putMessage queryOffset queryTopicQuota queryUserQuota"
    " queryWorker renew revokePermission setPermission setTopicQuota setUserQuota unlockPartition"
    " updateOffset validClientVersion".split()
)
SDS_CALLS = set(
    "TableScanner alterTable batch cancelSnapshotTable cloneTable createCredential createTable"
    " deleteSnapshot describeTable disableTable dropTable enableTable findAllAppInfo findAllApps"
    " findAllTables get getAppInfo getQuotaInfo getServerTime getServerVersion getSnapshotState"
    " getTableHistorySize getTableSize getTableSplits getTableState getTableStatus increment"
    " listAllSnapshots listSnapshots listSubscribedEmail listSubscribedPhone put putClientMetrics"
    " putToRebuildIndex queryMetric queryMetrics remove renameTable restoreSnapshot saveAppInfo"
    " scan snapshotTable subscribeEmailAlert subscribePhoneAlert unsubscribeEmailAlert"
    " unsubscribePhoneAlert validateClientVersion".split()
)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled programs; without Java the test fails."""
    assert fetched(JAVA_CLIENTS), "no jars of the Java clients: make setup"
    jars = sorted(need_jars(JAVA_CLIENTS).glob("*.jar"))
    compiler = next(jar for jar in jars if jar.name.startswith("ecj-"))
    folder = tmp_path_factory.mktemp("classes")
    path = ":".join([str(folder), *map(str, jars)])
    command = [java(), "-jar", str(compiler), "-17", "-nowarn", "-cp", path, "-d", str(folder)]
    sources = sorted(map(str, PROGRAMS.glob("*.java")))
    done = completed([*command, *sources])
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def ended(path: str, folder: Path, server: ServerProcess, name: str, *arguments: Any) -> Any:
    """A program that has ended."""
    command = [java(), "-XX:TieredStopAtLevel=1", "--add-exports", EXPORTS, "-cp", path, name]
    command += [server.url, ROOT_KEY.key_id, ROOT_KEY.secret, *map(str, arguments)]
    return completed(command, cwd=folder, env=sdk_environment(), stdin=subprocess.DEVNULL)


def run(path: str, folder: Path, server: ServerProcess, name: str, *arguments: Any) -> Any:
    """What a program counted."""
    done = ended(path, folder, server, name, *arguments)
    assert done.returncode == 0, f"{done.stderr}\nserver:\n{server.stderr()}"
    return json.loads(done.stdout)


def judge(counted: Any, name: str) -> None:
    """No failure in many calls of each kind, of which many have a short digest."""
    calls = sum(counted["calls"].values())
    requests, short = counted["requests"], counted["short_digests"]
    said = f"{name}: {calls} calls, {counted['failed']} failures, {short} of {requests} requests"
    sys.stdout.write(f"| {said} with a short digest\n")
    assert counted["failures"] == []
    assert counted["failed"] == 0
    assert calls >= CALLS_MIN
    assert short >= requests * SHORT_DIGESTS_OF_REQUESTS


def test_every_call_of_the_java_talos_client_works_each_time(
    classes: str, server: ServerProcess, tmp_path: Path
) -> None:
    counted = run(classes, tmp_path, server, "TalosCalls", "java-reader", 6)
    judge(counted, "galaxy-talos-sdk")
    assert set(counted["calls"]) == TALOS_CALLS


def test_every_call_of_the_java_sds_client_works_each_time(
    classes: str, server: ServerProcess, tmp_path: Path
) -> None:
    counted = run(classes, tmp_path, server, "SdsCalls", 6)
    judge(counted, "galaxy-client-java")
    assert set(counted["calls"]) == SDS_CALLS


def test_the_java_producer_and_a_group_of_two_java_consumers_lose_nothing(
    classes: str, tmp_path: Path
) -> None:
    """The group is stopped and started again, and continues where it was."""
    server = ServerProcess(tmp_path / "server")  # the client renews every 7 s, so leases as usual
    server.start()
    try:
        counted = run(classes, tmp_path, server, "TalosGroup", GROUP_MESSAGES)
    finally:
        server.kill()
    sys.stdout.write(f"| galaxy-talos-sdk: TalosProducer and TalosConsumer {counted}\n")
    assert counted["sent"] >= GROUP_MESSAGES
    assert counted["stored"] == counted["seen"] == counted["sent"]
    assert counted["refused"] == 0
    assert counted["again"] == 0, "positions are remembered"
    assert counted["workers"]["a"], "the partitions are shared"
    assert counted["workers"]["b"], "the partitions are shared"


# Which outcome each official example has is in docs/how-to/official-clients.md.
def test_the_basic_example_of_the_java_sds_client_runs_as_it_is(
    classes: str, server: ServerProcess, tmp_path: Path
) -> None:
    done = ended(classes, tmp_path, server, "Example", f"{EXAMPLES}.Basic")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("table infos are [")  # all that the published one does


def test_the_example_of_scans_with_actions_counts_as_it_is(
    classes: str, server: ServerProcess, tmp_path: Path
) -> None:
    done = ended(classes, tmp_path, server, "Example", f"{EXAMPLES}.ScanWithActionExample")
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^There are (?:totally )?(\d+) ", done.stdout, re.MULTILINE)
    assert list(map(int, counts)) == [26, 10, 26, 15, 26, 9, 9]


def test_the_example_with_an_index_over_a_set_is_refused_by_name(
    classes: str, server: ServerProcess, tmp_path: Path
) -> None:
    done = ended(classes, tmp_path, server, "Example", f"{EXAMPLES}.SdsDemo")
    assert done.returncode == 1
    assert "the index cat: column category is of type STRING_SET" in done.stderr
