"""The server in a test's own process, and the plugin that gives it to tests."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.waiting import completed

from opentalos.model.errors import ConfigError
from opentalos.sdk import SimpleConsumer, SimpleProducer, Start, aio
from opentalos.testing import EmbeddedServer

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "pytest_example.py"


def one_life() -> Path:
    """Serve, store, read, end; where the data was."""
    with EmbeddedServer() as server:
        topic = server.create_topic("orders", partitions=2)
        config = server.client_config()
        with SimpleProducer(config, topic.name) as producer:
            producer.put([b"one", b"two"], partition=1)
        with SimpleConsumer(config, topic.name) as consumer:
            assert [record.data for record in consumer.fetch(1, Start.EARLIEST)] == [b"one", b"two"]
        folder = server._made
        assert folder is not None
        assert folder.exists()
    return folder


def test_it_serves_and_leaves_nothing_behind() -> None:
    one_life()  # the SDK keeps its threads, which are of the process
    threads = set(threading.enumerate())
    folder = one_life()
    assert not folder.exists()
    assert set(threading.enumerate()) <= threads


async def test_asyncio_clients_use_it_too() -> None:
    with EmbeddedServer() as server:
        topic = server.create_topic("orders")
        async with aio.SimpleProducer(server.client_config(), topic.name) as producer:
            await producer.put([b"one"])


def test_data_outlives_a_stop(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "data")
    server.start()
    topic = server.create_topic("orders")
    with SimpleProducer(server.client_config(), topic.name) as producer:
        producer.put([b"kept"])
    server.stop()
    server.stop()
    with server, SimpleConsumer(server.client_config(), topic.name) as consumer:
        assert [record.data for record in consumer.fetch(0, Start.EARLIEST)] == [b"kept"]
    assert (tmp_path / "data" / "meta.sqlite").exists()


def test_a_directory_in_use_is_refused_in_one_line(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path), pytest.raises(ConfigError, match="uses it"):
        EmbeddedServer(tmp_path).start()


def test_it_is_asked_for_its_url_only_while_it_runs() -> None:
    server = EmbeddedServer()
    with pytest.raises(RuntimeError, match="is not running"):
        _ = server.url
    server.close()


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error"]
    command += ["-p", "no:cacheprovider", "-p", "no:asyncio", "--rootdir", str(folder)]
    return completed([*command, *arguments], cwd=folder)


def test_fixtures_come_with_the_package(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path / "test_example.py")
    done = run_pytest(tmp_path, "test_example.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


PLAIN = """
import sys

def test_nothing_of_the_server_is_loaded():
    loaded = {name for name in sys.modules if name.startswith("opentalos")}
    assert loaded == {"opentalos", "opentalos.testing", "opentalos.testing.pytest_plugin"}
"""


def test_tests_without_the_fixtures_load_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(PLAIN)
    done = run_pytest(tmp_path, "test_plain.py")
    assert done.returncode == 0, done.stdout + done.stderr
