"""The synchronous SDK in processes: threads, forks, exits, interrupts."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ROOT_KEY, ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import completed, ended, eventually, limit_s

from opentalos.sdk import (
    Client,
    ClientConfig,
    SimpleConsumer,
    SimpleProducer,
    Start,
    TalosAdmin,
    TlsSettings,
)
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.sync.loop_thread import LoopThread

PROGRAMS = Path(__file__).parent / "programs"
KEY = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"


def run(name: str, *arguments: str) -> str:
    """Run a program with all warnings on; its output. What it says on stderr fails the test."""
    command = [sys.executable, "-W", "error", str(PROGRAMS / f"{name}.py"), *arguments]
    done = completed(command)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def forked_topic(config: ClientConfig) -> list[bytes]:
    with SimpleConsumer(config, "forked") as consumer:
        return [record.data for record in consumer.fetch(0, Start.EARLIEST)]


EXPECTED = sorted(
    [b"parent before", b"parent after", *[b"parent between"] * 3]
    + [b"%b %d" % (who, number) for who in (b"child", b"grandchild") for number in range(3)]
)


def test_a_forked_child_gets_its_own_thread_and_connections(sdk_config: ClientConfig) -> None:
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("forked", partitions=2)
    assert run("forking", sdk_config.endpoints[0], KEY, "") == "statuses [0, 0, 0]\n"
    assert sorted(forked_topic(sdk_config)) == EXPECTED


def test_a_fork_leaves_the_parents_tls_connections_alone(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path / "tls")
    server = ServerProcess(tmp_path / "server", folder.section()).start()
    try:
        plain = config_of(server.url)
        config = ClientConfig(
            endpoints=plain.endpoints, key_id=plain.key_id, secret=plain.secret,
            tls=TlsSettings(ca_file=str(folder.ca)),
        )  # fmt: skip
        with TalosAdmin(config) as admin:
            admin.topics.create("forked", partitions=2)
        assert run("forking", server.url, KEY, str(folder.ca)) == "statuses [0, 0, 0]\n"
        assert sorted(forked_topic(config)) == EXPECTED
    finally:
        server.stop()


def test_a_script_that_closes_nothing_ends_quietly(sdk_config: ClientConfig) -> None:
    assert run("leaving", sdk_config.endpoints[0], KEY) == "end\n"


def test_what_is_left_to_send_goes_out_at_the_exit(sdk_server: ServerProcess) -> None:
    """By name, over a connection that is made only then."""
    url = f"http://localhost:{sdk_server.port}"
    with TalosAdmin(config_of(url)) as admin:
        admin.topics.create("good-bye", partitions=1)
        assert run("leaving_late", url, KEY) == "end\nsaid\n"
        assert admin.offsets("good-bye")[0].next == 1


def test_many_threads_share_one_client(sdk_config: ClientConfig) -> None:
    with Client(sdk_config) as client, ThreadPoolExecutor(16) as threads:
        admin = TalosAdmin(client)
        admin.topics.create("threads", partitions=4)
        producer = SimpleProducer(client, "threads")

        def put(number: int) -> None:
            producer.put([b"%d" % number], partition=number % 4)

        list(threads.map(put, range(200)))
        consumer = SimpleConsumer(client, "threads")
        found = list(threads.map(lambda partition: consumer.fetch(partition, 0), range(4)))
    assert sorted(int(record.data) for records in found for record in records) == list(range(200))
    assert sum(thread.name == "opentalos-sdk" for thread in threading.enumerate()) == 1


def test_an_object_closes_only_its_own_client(sdk_config: ClientConfig) -> None:
    with Client(sdk_config) as client:
        with TalosAdmin(client) as admin:
            admin.topics.create("shared", partitions=1)
        with SimpleProducer(client, "shared") as producer:
            producer.put([b"x"])
    with pytest.raises(ClientClosed):
        producer.put([b"y"])
    with TalosAdmin(sdk_config) as own:
        own.topics.list()
    with pytest.raises(ClientClosed):
        own.topics.list()
    own.close()


def test_a_blocking_call_on_the_loop_thread_is_refused(sdk_config: ClientConfig) -> None:
    with TalosAdmin(sdk_config) as admin:

        async def callback() -> None:
            admin.topics.list()

        with pytest.raises(RuntimeError, match="event loop thread"):
            LoopThread.shared().run(callback())


def test_a_call_that_takes_too_long_is_cancelled(sdk_config: ClientConfig) -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        LoopThread.shared().run(endless(), 0.05)
    eventually("the call is cancelled", cancelled.is_set)


INTERRUPTED = """
import sys, opentalos.sdk as sdk
config = sdk.ClientConfig(endpoints=(sys.argv[1],), key_id="a", secret="b")
print("ready", flush=True)
try:
    sdk.TalosAdmin(config).topics.list()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_call_that_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.settimeout(limit_s())
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
        program = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        for _ in range(2):  # attempts that fail, so it is in the pauses between them
            port.accept()[0].close()
        os.kill(program.pid, signal.SIGINT)
        ended(program, "the interrupted program ends")
    out, err = program.communicate()
    assert (out, err, program.returncode) == (b"interrupted\n", b"", 0)
