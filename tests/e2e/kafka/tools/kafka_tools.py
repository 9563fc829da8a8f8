"""Kafka's own command line tools, in one Java machine that runs one after the other."""

import base64
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.waiting import completed, eventually, limit_s

from opentalos.backends.jars import JAVA_CLIENTS, java, need_jars

SOURCE = Path(__file__).parent / "KafkaTools.java"
_PROGRAMS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}


class Run(NamedTuple):
    """What a tool answered."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All of it."""
        return self.out + self.err


@dataclass(frozen=True)
class Login:
    """Who uses a tool, and where."""

    address: str  # HOST:PORT of a Kafka port
    settings: Path  # a client's settings


def login(folder: Path, address: str, key_id: str, secret: str) -> Login:
    """Writes the settings of a key."""
    path = folder / f"{key_id}.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{key_id}" password="{secret}";\n'
        f"default.api.timeout.ms={int(limit_s() * 1_000)}\n"
    )
    return Login(address, path)


class KafkaTools:
    """``run`` is what the script kafka-NAME.sh would do."""

    def __init__(self, folder: Path) -> None:
        jars = need_jars("kafka")
        compiler = next(need_jars(JAVA_CLIENTS).glob("ecj-*.jar"))
        self._folder, self._jars = folder, jars
        command = [java(), "-jar", str(compiler), "-17", "-nowarn", "-d", str(folder)]
        named = ":".join(map(str, jars.glob("*.jar")))
        done = completed([*command, "-cp", named, str(SOURCE)])
        assert done.returncode == 0, done.stdout + done.stderr
        self._log = (folder / "java.stderr").open("wb")
        self._process = subprocess.Popen(
            [*self._java(), "KafkaTools"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def close(self) -> None:
        """End the Java machine."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()

    def run(self, login: Login, name: str, *arguments: str, stdin: str = "") -> Run:
        """Run a tool with the settings of a login."""
        where = ("--bootstrap-server", login.address, "--command-config", str(login.settings))
        return self._call(_PROGRAMS[name], (*where, *arguments), stdin)

    def alone(self, login: Login, name: str, *arguments: str) -> str:
        """The output of a tool that ends with its Java machine; it must succeed."""
        where = ("--bootstrap-server", login.address, "--command-config", str(login.settings))
        command = [*self._java(), _PROGRAMS[name], *where, *arguments]
        done = completed(command, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _java(self) -> list[str]:
        """Without the optimizing compiler it is ready sooner."""
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dlog4j2.level=OFF"]
        return [java(), *flags, "-cp", f"{self._folder}:{self._jars}/*"]

    def done(self, login: Login, name: str, *arguments: str, stdin: str = "") -> str:
        """The output of a tool that must succeed."""
        found = self.run(login, name, *arguments, stdin=stdin)
        assert found.status == 0, found.text
        return found.out

    def _call(self, program: str, arguments: tuple[str, ...], stdin: str) -> Run:
        fields = (stdin, program, *arguments)
        line = b" ".join(b"=" + base64.b64encode(field.encode()) for field in fields) + b"\n"
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        status, out, err = self._answer().split()
        return Run(int(status), *(base64.b64decode(part[1:]).decode() for part in (out, err)))

    def _answer(self) -> bytes:
        stream = self._process.stdout
        assert stream is not None
        seen = b""
        while not seen.endswith(b"\n"):
            eventually("the tool ends", lambda: select.select([stream], [], [], 1.0)[0])
            chunk = stream.read1(1 << 16)  # type: ignore[attr-defined] # a buffered reader
            assert chunk, "the Java machine has ended"
            seen += chunk
        return seen
