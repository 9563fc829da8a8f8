"""Lives of the program that copies a topic, and what must be in the copy."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL

import psutil
from tests.spark.conftest import TalosServer
from tests.spark.kills.copy_topic import ROWS_OF_BATCH
from tests.spark.kills.pausing_sink import FOLDER_VARIABLE
from tests.waiting import eventually, limit_s

from opentalos.sdk import ClientConfig, Message, SimpleConsumer, TalosAdmin, TalosProducer

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS = 3
KEYS = tuple(f"{letter * 6}-{number}" for number, letter in enumerate("aeimquyz"))
LEFT_MESSAGES = 4_000
_STDERR_CHARACTERS = 3_000


class Copying:
    """One source topic, one copy, one folder with the checkpoint."""

    def __init__(self, server: TalosServer, name: str, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.source, self.target = f"{name}-source", f"{name}-copy"
        self.sent = dict.fromkeys(KEYS, 0)  # messages by key
        with TalosAdmin(server.config) as admin:
            for topic in (self.source, self.target):
                admin.topics.create(topic, partitions=PARTITIONS)

    def produce(self, messages: int) -> None:
        """Put more into the source."""
        with TalosProducer(self.server.config, self.source) as producer:
            for number in range(messages):
                key = KEYS[number % len(KEYS)]
                producer.put(Message(f"{key}:{self.sent[key]}".encode(), partition_key=key))
                self.sent[key] += 1

    def top_up(self) -> None:
        """Put so many into the source that some batches are left to copy."""
        left = sum(self.sent.values()) - self.batches() * ROWS_OF_BATCH
        self.produce(max(0, LEFT_MESSAGES - left))

    def batches(self) -> int:
        """That Spark has committed."""
        commits = self.folder / "checkpoint" / "commits"
        return sum(path.name.isdecimal() for path in commits.glob("*")) if commits.exists() else 0

    def gone_on(self) -> Callable[[], bool]:
        """Says whether more batches are committed than now."""
        before = self.batches()
        return lambda: self.batches() > before

    def whole(self) -> bool:
        """Whether the copy has as many messages as the source."""
        with SimpleConsumer(self.server.config, self.target) as consumer:
            held = sum(offset.next for offset in consumer.offsets().values())
        return held >= sum(self.sent.values())

    def replayed_next(self) -> bool:
        """Whether the next life begins with a batch that was begun before."""
        offsets = self.folder / "checkpoint" / "offsets"
        begun = sum(path.name.isdecimal() for path in offsets.glob("*")) if offsets.exists() else 0
        return begun > self.batches()

    @contextmanager
    def flag(self, name: str) -> Iterator[None]:
        """A file of this name is in the folder meanwhile."""
        (self.folder / name).touch()
        try:
            yield
        finally:
            (self.folder / name).unlink()

    @contextmanager
    def life(self) -> Iterator["Life"]:
        """The program runs; afterwards nothing of it is left."""
        life = Life(self)
        try:
            yield life
        finally:
            life.kill(workers=True)

    def copy_the_rest(self) -> None:
        """One life to the end of the source."""
        with self.flag("once"), self.life() as life:
            life.wait_for("everything is copied", lambda: life.ended)
            assert life.status == 0, life.stderr()

    def check(self) -> None:
        """The copy has every message of the source once, and each key's in their order."""
        found: dict[str, list[int]] = {key: [] for key in KEYS}
        for partition in range(PARTITIONS):
            for data in read_all(self.server.config, self.target, partition):
                key, _, number = data.decode().removesuffix("!").partition(":")
                found[key].append(int(number))
        assert {key: len(numbers) for key, numbers in found.items()} == self.sent
        assert all(numbers == list(range(self.sent[key])) for key, numbers in found.items())


class Life:
    """One process of the program with its JVM and workers."""

    def __init__(self, copying: Copying) -> None:
        self._stderr = copying.folder / "stderr"
        command = [sys.executable, "-m", "tests.spark.kills.copy_topic", copying.server.url]
        command += [copying.server.key, copying.source, copying.target]
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    FOLDER_VARIABLE: str(copying.folder),
                    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
                },
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def status(self) -> int | None:
        return self._process.returncode

    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")[-_STDERR_CHARACTERS:]

    def wait_for(self, what: str, done: Callable[[], bool]) -> None:
        """Until it is so. Fails if the program ends before."""

        def seen() -> bool:
            if done():
                return True
            assert not self.ended or done(), f"it ended by itself: {self.stderr()}"
            return False

        eventually(what, seen, state=self.stderr)

    def kill(self, *, workers: bool) -> None:
        """SIGKILL to driver and JVM, and to the Python workers too or they find out themselves."""
        if self._process.returncode is not None:
            return
        family: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid).children(recursive=True)
        if not self.ended:
            os.killpg(self._process.pid, SIGKILL)
        self._process.wait()
        for item in family if workers else ():
            with suppress(psutil.NoSuchProcess):
                item.kill()
        alive = psutil.wait_procs(family, limit_s())[1]
        for item in alive:
            item.kill()
        assert not alive, f"processes outlived their driver: {alive}"


def read_all(config: ClientConfig, topic: str, partition: int) -> list[bytes]:
    """Every message of a partition, by the plain SDK."""
    found: list[bytes] = []
    with SimpleConsumer(config, topic) as consumer:
        held = consumer.offsets()[partition]
        offset = held.start
        while offset < held.next:
            records = consumer.fetch(partition, offset)
            found += [record.data for record in records]
            offset = records[-1].offset + 1
    return found
