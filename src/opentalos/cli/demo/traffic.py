"""The traffic of ``talos demo``: a TalosProducer puts messages, a consumer group reads them."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from opentalos.cli.demo.readers import OfficialReader, OwnReader, Reader
from opentalos.sdk import Client, ClientConfig, TalosAdmin, TalosProducer

PARTITIONS: Final = 8
GROUP: Final = "demo"
MESSAGE_BYTES: Final = 1024
BALANCE_S: Final = 30.0  # until the partitions are balanced over both workers
READ_S: Final = 120.0
_POLL_S: Final = 0.1
_BAR_WIDTH: Final = 40
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class Official:
    """Paths of the official SDK."""

    python: Path
    program: Path

    def missing(self) -> str:
        """The first path that does not exist; empty if both exist."""
        return next((str(path) for path in (self.python, self.program) if not path.exists()), "")


def run_traffic(config: ClientConfig, messages: int, official: Official) -> None:
    """Run the tour. Raises: TalosError, ClickException: it failed."""
    with ExitStack() as undo:
        client = undo.enter_context(Client(config))
        admin = undo.enter_context(TalosAdmin(client))
        topic = admin.topics.create(f"demo-{time.time_ns() // 1_000_000}", partitions=PARTITIONS)
        click.echo(f"  created   topic {topic.name} with {PARTITIONS} partitions")
        own = OwnReader(config, topic.name, GROUP)
        undo.callback(own.stop)
        readers: list[Reader] = [own]
        missing = official.missing()
        if missing:
            click.echo(f"  skipped   no second client: {missing} does not exist; run make setup")
        else:
            key = f"{config.key_id}:{config.secret}"
            arguments = [config.endpoints[0], key, topic.name, GROUP]
            second = OfficialReader(official.python, official.program, arguments)
            undo.callback(second.stop)
            readers.append(second)
            _wait_balanced(admin, topic.name, second)
        started_s = time.monotonic()
        rate = _produce(client, topic.name, messages)
        _read(readers, messages)
        holders = _holders(admin, topic.name, own.worker)
        for reader in readers:
            reader.stop()
        _show(admin, topic.name, holders)
        _figure("produced", rate, f"{messages:,} messages of 1 KiB by opentalos.sdk")
        for reader in readers:
            rate = reader.read / max(reader.last_s - started_s, _POLL_S)
            _figure("consumed", rate, f"{reader.read:,} messages by {reader.name}")


def _wait_balanced(admin: TalosAdmin, topic: str, second: OfficialReader) -> None:
    """Wait until each worker holds half of the partitions."""
    until_s = time.monotonic() + BALANCE_S
    while time.monotonic() < until_s:
        if not second.alive:
            raise click.ClickException(
                "the client with the official SDK exited; run its program to see why"
            )
        shares = sorted(len(held) for held in admin.groups.workers(topic, GROUP).values())
        if shares == [PARTITIONS // 2] * 2:
            click.echo(f"  balanced  two workers with {PARTITIONS // 2} partitions each")
            return
        time.sleep(_POLL_S)
    raise click.ClickException(f"the group is not balanced after {BALANCE_S:.0f} s")


def _produce(client: Client, topic: str, messages: int) -> float:
    """Put and flush all messages; return messages per second."""
    payload = os.urandom(MESSAGE_BYTES // 2).hex().encode()
    started_s = time.monotonic()
    with TalosProducer(client, topic) as producer:
        for _ in range(messages):
            producer.put(payload)
        producer.flush()
    took_s = time.monotonic() - started_s
    _bar("produced", messages, messages)
    return messages / took_s


def _read(readers: Sequence[Reader], messages: int) -> None:
    """Wait until the workers together have read all messages."""
    until_s = time.monotonic() + READ_S
    while (read := sum(reader.read for reader in readers)) < messages:
        if time.monotonic() > until_s:
            raise click.ClickException(
                f"only {read} of {messages} messages read after {READ_S:.0f} s"
            )
        time.sleep(_POLL_S)
    _bar("consumed", read, messages)


def _bar(what: str, count: int, wanted: int) -> None:
    bar = "#" * int(min(1.0, count / wanted) * _BAR_WIDTH)
    click.echo(f"  {what:<9} [{bar:<{_BAR_WIDTH}}] {count:>7} / {wanted}")


def _holders(admin: TalosAdmin, topic: str, own: str) -> dict[int, str]:
    """The client that holds each partition."""
    return {
        partition: "opentalos.sdk" if worker == own else "official SDK"
        for worker, held in admin.groups.workers(topic, GROUP).items()
        for partition in held
    }


def _show(admin: TalosAdmin, topic: str, holders: dict[int, str]) -> None:
    """Print a table of offsets, checkpoints and lag."""
    click.echo("\n  partition   start     end   checkpoint   lag   worker")
    total = 0
    offsets = admin.offsets(topic)
    for state in admin.groups.lag(topic, GROUP):
        range_ = offsets[state.partition]
        lag = state.lag or 0  # a partition of the demo is not damaged
        total += lag
        click.echo(
            f"  {state.partition:>9} {range_.start:>7} {range_.end:>7} {state.checkpoint:>12}"
            f" {lag:>5}   {holders.get(state.partition, '-')}"
        )
    click.echo(f"  lag of group {GROUP!r}: {total}\n")


def _figure(what: str, rate: float, about: str) -> None:
    click.echo(
        f"  {what} {rate:>9,.0f} messages/s, {rate * MESSAGE_BYTES / _MB:6.1f} MB/s: {about}"
    )
