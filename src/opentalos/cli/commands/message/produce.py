"""``talos produce``: lines of a file or pipe as messages of a topic, by our SDK."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from opentalos.cli.connection.completion import topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.interrupt import Interrupted, Stop, stopping
from opentalos.cli.output.progress import Progress
from opentalos.model.errors import BadRequest, TalosError
from opentalos.model.message import Compression

if TYPE_CHECKING:
    from opentalos.cli.commands.message.writers import Writer
    from opentalos.cli.input.message_lines import Parse
    from opentalos.wire.message.message import Message

_READ_BYTES: Final = 256 << 10
_IDEMPOTENT: Final[dict[str, Any]] = {"auto": "auto", "yes": True, "no": False}


@click.command()
@topic_argument
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A message is a line; or a line is a JSON object, as talos consume --format json has it.",
)
@click.option("--key-separator", metavar="TEXT", help="What is before it in a line is the key.")
@click.option("--partition", type=click.IntRange(0), help="All to this one.")
@click.option(
    "--compression",
    type=click.Choice([one.name.lower() for one in Compression]),
    default="snappy",
    help="Of the blocks.",
    show_default=True,
)
@click.option(
    "--idempotent",
    type=click.Choice(list(_IDEMPOTENT)),
    default="auto",
    show_default=True,
    help="Whether a put that is repeated is stored once; auto: if the server can.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    help="Seconds that the server may take to store a message.",
)
@with_server
def produce(
    topic: str,
    file: BinaryIO,
    form: str,
    key_separator: str | None,
    partition: int | None,
    compression: str,
    idempotent: str,
    timeout_s: float,
    server: ServerOptions,
) -> None:
    """Put the lines of FILE (-: of stdin) to TOPIC, each as one message.

    Messages with a key go to the partition of the key, others to the partitions in turns. Prints
    on stderr how many are stored; exit status 0 means all are. Ctrl-C sends what was read and
    tells how many are stored, are not, or are unknown.

    With --format json a line has text, base64 or value, and maybe key, sequence_number,
    create_ms, type, schema_fingerprint and tag; topic, partition, offset and append_ms are
    passed over.

    \b
    Example: talos produce orders --key-separator : < orders.txt
             talos consume orders --format json | talos produce copy --format json -
    """
    from opentalos.cli.input.message_lines import parser

    if partition is not None and idempotent == "yes":
        raise click.UsageError("--idempotent yes cannot be had with --partition")
    if form == "json" and key_separator is not None:
        raise click.UsageError("--key-separator is for text; JSON lines have keys")
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    parse = parser(form, None if key_separator is None else key_separator.encode())
    server.rest().reach()
    plan = _Plan(topic, partition, Compression[compression.upper()], idempotent, timeout_s)
    with plan.client(server) as client:
        writer = plan.writer(client)
        _copy(_Source(file, parse), writer, timeout_s)


@dataclass(frozen=True, slots=True)
class _Plan:
    topic: str
    partition: int | None
    compression: Compression
    idempotent: str
    timeout_s: float

    def client(self, server: ServerOptions) -> Any:
        from opentalos.sdk import Client

        return Client(server.config(deadline_s=self.timeout_s))

    def writer(self, client: Any) -> "Writer":
        from opentalos.cli.commands.message.writers import KeyedWriter, PartitionWriter
        from opentalos.sdk import ProducerSettings

        if self.partition is not None:
            return PartitionWriter(client, self.topic, self.partition, self.compression)
        settings = ProducerSettings(
            compression=self.compression,
            idempotent=_IDEMPOTENT[self.idempotent],
            delivery_deadline_s=self.timeout_s,
            block_s_max=self.timeout_s,
        )
        return KeyedWriter(client, self.topic, settings)


class _Source:
    """Messages out of a file or pipe."""

    def __init__(self, file: BinaryIO, parse: "Parse") -> None:
        from opentalos.cli.input.message_lines import Lines

        self._file, self._parse, self._lines = file, parse, Lines()
        self._line = 0
        self.read_bytes = 0

    def bytes_count(self) -> int | None:
        """Of a whole file; None: nobody knows."""
        try:
            found = os.fstat(self._file.fileno())
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def messages(self, stop: Stop) -> "Iterator[list[Message]]":
        """Messages of one read after the other, until the end or Ctrl-C.

        Raises: BadRequest, naming the line; the messages before it were given.
        """
        read = getattr(self._file, "read1", self._file.read)
        while not stop.asked:
            try:
                with stop.waiting():
                    chunk = read(_READ_BYTES)
            except KeyboardInterrupt:
                return
            self.read_bytes += len(chunk)
            yield from self._parsed(self._lines.split(chunk) if chunk else self._lines.end())
            if not chunk:
                return

    def _parsed(self, lines: list[bytes]) -> "Iterator[list[Message]]":
        found = []
        for line in lines:
            self._line += 1
            try:
                found.append(self._parse(line))
            except BadRequest as error:
                yield found
                raise BadRequest(f"line {self._line}: {error}; nothing behind it was put") from None
        yield found


def _copy(source: _Source, writer: "Writer", timeout_s: float) -> None:
    """Put everything there is, then say what became of it."""
    from opentalos.cli.input.message_lines import parts_of

    failure: TalosError | None = None
    account = writer.account
    with stopping() as stop:
        try:
            with Progress("bytes", source.bytes_count()) as progress:
                for messages in source.messages(stop):
                    for part in parts_of(messages):
                        writer.put(part)
                        progress.show(source.read_bytes)
                    if account.error is not None:
                        break  # the others would end the same way
        except KeyboardInterrupt:
            pass  # a second one, or one during a put to a partition
        except TalosError as error:
            failure = error
        finally:
            writer.finish(timeout_s)
    failure = failure or account.error
    if failure is not None and not (stop.asked and account.unknown):
        failure.add_note(str(account))
        raise failure
    if stop.asked:
        raise Interrupted(f"interrupted; {account}")
    click.echo(str(account), err=True)
