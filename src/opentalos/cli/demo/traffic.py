"""The traffic of ``talos demo``: messages in with TalosProducer, and out through a group."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from opentalos.cli.demo.readers import OfficialReader, OwnReader, Reader
from opentalos.sdk import Client, ClientConfig, TalosAdmin, TalosError, TalosProducer

PARTITIONS: Final = 8
GROUP: Final = "demo"
MESSAGE_BYTES: Final = 1024
BALANCE_S: Final = 30.0  # until two workers have shared the partitions
READ_S: Final = 120.0
_LOOK_S: Final = 0.1
_BAR_WIDTH: Final = 40
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class Official:
    """Where the official SDK is."""

    python: Path
    program: Path

    def missing(self) -> str:
        """What is not there; empty: nothing."""
        return next((str(one) for one in (self.python, self.program) if not one.exists()), "")


def run_traffic(config: ClientConfig, messages: int, official: Official) -> None:
    """The whole tour. Raises: TalosError, ClickException: it did not go as promised."""
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
            click.echo(f"  alone     no second client: {missing} is not there (make setup)")
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
            rate = reader.read / max(reader.last_s - started_s, _LOOK_S)
            _figure("consumed", rate, f"{reader.read:,} messages by {reader.name}, as they came")


def _wait_balanced(admin: TalosAdmin, topic: str, second: OfficialReader) -> None:
    """Until both workers hold half of the partitions."""
    until_s = time.monotonic() + BALANCE_S
    while time.monotonic() < until_s:
        if not second.alive:
            raise click.ClickException("the client with the official SDK ended; see its program")
        shares = sorted(len(held) for held in admin.groups.workers(topic, GROUP).values())
        if shares == [PARTITIONS // 2] * 2:
            click.echo(f"  shared    two workers with {PARTITIONS // 2} partitions each")
            return
        time.sleep(_LOOK_S)
    raise click.ClickException(f"the group was not balanced after {BALANCE_S:.0f} s")


def _produce(client: Client, topic: str, messages: int) -> float:
    """Put and flush; messages per second until all are stored."""
    payload = os.urandom(MESSAGE_BYTES // 2).hex().encode()
    failed: list[TalosError] = []
    started_s = time.monotonic()
    with TalosProducer(client, topic) as producer:
        for _ in range(messages):
            producer.put(payload, on_error=lambda message, error, outcome: failed.append(error))
        producer.flush()
    if failed:
        raise failed[0]
    took_s = time.monotonic() - started_s
    _bar("produced", messages, messages)
    return messages / took_s


def _read(readers: Sequence[Reader], messages: int) -> None:
    """Until the workers have read everything between them."""
    until_s = time.monotonic() + READ_S
    while (read := sum(reader.read for reader in readers)) < messages:
        if time.monotonic() > until_s:
            raise click.ClickException(f"only {read} of {messages} read after {READ_S:.0f} s")
        time.sleep(_LOOK_S)
    _bar("consumed", read, messages)


def _bar(what: str, count: int, wanted: int) -> None:
    bar = "#" * int(min(1.0, count / wanted) * _BAR_WIDTH)
    click.echo(f"  {what:<9} [{bar:<{_BAR_WIDTH}}] {count:>7} / {wanted}")


def _holders(admin: TalosAdmin, topic: str, own: str) -> dict[int, str]:
    """Which client holds each partition."""
    return {
        partition: "opentalos.sdk" if worker == own else "official SDK"
        for worker, held in admin.groups.workers(topic, GROUP).items()
        for partition in held
    }


def _show(admin: TalosAdmin, topic: str, holders: dict[int, str]) -> None:
    """A table of log ends, checkpoints and lag."""
    click.echo("\n  partition   start     end   checkpoint   lag   worker")
    total = 0
    offsets = admin.offsets(topic)
    for state in admin.groups.lag(topic, GROUP):
        kept = offsets[state.partition]
        lag = kept.end - state.checkpoint
        total += lag
        click.echo(
            f"  {state.partition:>9} {kept.start:>7} {kept.end:>7} {state.checkpoint:>12}"
            f" {lag:>5}   {holders.get(state.partition, '-')}"
        )
    click.echo(f"  lag of group {GROUP!r}: {total}\n")


def _figure(what: str, rate: float, about: str) -> None:
    click.echo(
        f"  {what} {rate:>9,.0f} messages/s, {rate * MESSAGE_BYTES / _MB:6.1f} MB/s: {about}"
    )
