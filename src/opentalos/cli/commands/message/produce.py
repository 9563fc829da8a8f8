"""``talos produce``: lines of a file or pipe as messages of a topic, through the SDK."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from opentalos.cli.connection.completion import topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.interrupt import Interrupted, Stop, stopping
from opentalos.cli.output.progress import Progress
from opentalos.model.errors import BadRequest, PartitionNotExist, TalosError
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
    help="text: each line is a message; json: each line is an object, as printed by talos consume "
    "--format json.",
)
@click.option(
    "--key-separator", metavar="TEXT", help="Text before this separator is the message key."
)
@click.option(
    "--partition", metavar="N", type=click.IntRange(0), help="Send all messages to this partition."
)
@click.option(
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Compression]),
    default="snappy",
    help="Compression codec of the message blocks.",
    show_default=True,
)
@click.option(
    "--idempotent",
    type=click.Choice(list(_IDEMPOTENT)),
    default="auto",
    show_default=True,
    help="Store a message once even if its put is retried; auto: if the server supports it.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="DURATION",
    type=Duration(click.FloatRange(1)),
    default=60.0,
    show_default=True,
    help="Delivery timeout.",
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
    """Send each line of FILE (default: stdin) to TOPIC as a message.

    Messages with a key go to the partition of the key, others round-robin. The number of stored
    messages is printed on stderr; exit status 0 means that all are stored. Ctrl-C sends what was
    read and reports how many messages are stored, not stored, or unknown.

    With --format json, a line has text, base64 or value, and optionally key, sequence_number,
    create_ms, type, schema_fingerprint and tag; topic, partition, offset and append_ms are ignored.

    \b
    Example: talos produce orders --key-separator : < orders.txt
             talos consume orders --format json | talos produce copy --format json -
    """
    from opentalos.cli.input.message_lines import parser

    if partition is not None and idempotent == "yes":
        raise click.UsageError("--idempotent yes cannot be combined with --partition")
    if form == "json" and key_separator is not None:
        raise click.UsageError("--key-separator applies to text; JSON lines have keys")
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    parse = parser(form, None if key_separator is None else key_separator.encode())
    server.rest().reach()
    plan = _Plan(topic, partition, Compression[compression.upper()], idempotent, timeout_s)
    with plan.client(server) as client:
        plan.check(client)
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

    def check(self, client: Any) -> None:
        """Check the topic before the first line is read, which may come late or not at all.

        Raises: TopicNotExist, PartitionNotExist; TalosError.
        """
        found = client.run(lambda asked: asked.topic(self.topic))
        if self.partition is not None and self.partition >= found.partitions:
            raise PartitionNotExist(
                f"topic {found.name} has no partition {self.partition}: it has "
                f"{counted(found.partitions, 'partition')}"
            )

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
    """Messages of a file or pipe."""

    def __init__(self, file: BinaryIO, parse: "Parse") -> None:
        from opentalos.cli.input.message_lines import Lines

        self._file, self._parse, self._lines = file, parse, Lines()
        self._line = 0
        self.read_bytes = 0

    def bytes_count(self) -> int | None:
        """The size of a regular file; None: unknown."""
        try:
            found = os.fstat(self._file.fileno())
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def messages(self, stop: Stop) -> "Iterator[list[Message]]":
        """The messages of each read, until the end of the file or Ctrl-C.

        Raises: BadRequest: names the invalid line; the preceding messages were yielded.
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
                raise BadRequest(
                    f"line {self._line}: {error}; stopped here, later lines were not sent"
                ) from None
        yield found


def _copy(source: _Source, writer: "Writer", timeout_s: float) -> None:
    """Put all messages, then report their outcomes."""
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
                        break  # the remaining messages would fail the same way
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
