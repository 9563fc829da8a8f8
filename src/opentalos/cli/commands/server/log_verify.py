"""``talos log``: inspection and repair of stored logs, while no server runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from opentalos.cli.counts import counted
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group("log")
def log() -> None:
    """Inspect stored logs."""


def _of_storage(command: _Command) -> _Command:
    """The options that name the storage of a stopped server."""
    data = click.option(
        "--data",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Data directory of the server.",
    )
    config = click.option(
        "--config",
        "config_path",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Configuration file (TOML) of the server.",
    )
    return config(data(command))


@log.command()
@_of_storage
@click.option("--repair", is_flag=True, help="Rebuild side indexes that cannot be used.")
@with_format
def verify(config_path: Path | None, data: str | None, repair: bool, output: Output) -> None:
    """Verify every CRC, offset, index, manifest and database of a server that is stopped.

    Prints one line per finding. A line without a prefix is damage: bytes are wrong or gone.
    "rebuildable" is a side index that is missing or wrong; the server does without it, and --repair
    rebuilds it from its sound segment. "note" is a leftover of a crash that the next start puts
    right. Without --repair, nothing is changed; with it, nothing but side indexes.

    Files of a topic that the catalogue does not know are damage, too: its record was lost, and
    talos log adopt makes another.

    Exit status: 0 no damage, 1 damage, or the logs could not be verified (a line "error: ..." and
    no summary, for example while the server runs), 2 wrong usage.

    Example: talos log verify --data /var/lib/opentalos --format json
    """
    from opentalos.server.config import load_config
    from opentalos.server.log_verify import Line, verify_data_directory

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    rows: list[dict[str, str | int]] = []

    def report(line: Line) -> None:
        if output.form == "text":
            click.echo(line.text if line.kind == "damage" else f"{line.kind}: {line.text}")
        else:
            rows.append(line._asdict())

    with Progress("segments") as progress:
        summary = verify_data_directory(config, report, progress.show, repair=repair)
    text = (
        f"checked {counted(summary.partitions, 'partition')}, "
        f"{counted(summary.segments, 'segment')}, {counted(summary.blocks, 'block')}, "
        f"{counted(summary.bytes, 'byte')}: {counted(summary.problems, 'problem')}"
    )
    if summary.rebuildable:
        text += f", {counted(summary.rebuildable, 'rebuildable file')}"
    if summary.repaired:
        text += f", {counted(summary.repaired, 'rebuilt file')}"
    if output.form == "text":
        click.echo(text)
    else:
        output.table(Line._fields, [*rows, {"kind": "summary", "text": text, **summary._asdict()}])
    if summary.problems:
        sys.exit(1)


@log.command()
@click.argument("uuid")
@click.argument("name", metavar="OWNER/NAME")
@_of_storage
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of partitions.  [default: as many as are stored]",
)
@click.option(
    "--partitioner",
    type=click.Choice(["murmur2", "official"]),
    default="murmur2",
    show_default=True,
    help="Rule by which producers place keys; official: that of official SDKs.",
)
def adopt(
    uuid: str,
    name: str,
    config_path: Path | None,
    data: str | None,
    partitions: int | None,
    partitioner: str,
) -> None:
    """Take a stored topic that the catalogue does not know back into it, while no server runs.

    UUID is the topic's folder in the storage, as talos log verify and the server's log name it.
    OWNER/NAME is what the topic is called from now on; a backup or the audit of former times may
    have its former name. Messages, offsets and positions of consumer groups are as before. Grants,
    attributes and quotas are lost, and the retention is the longest that the server allows: set
    them again with talos topic alter and talos acl.

    If the metadata can be restored as it was, do that instead: it has what this cannot know.

    Example: talos log adopt 5f0c2a77b1d94c1e8a8f0d6f3f1b9e42 alice/orders --data DIR
    """
    from opentalos.model.settings.partitioning import Partitioning
    from opentalos.server.config import load_config
    from opentalos.server.log_verify import Adoption, adopt_stored_topic

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    wanted = Adoption(uuid, name, partitions, Partitioning(partitioner))
    topic, without_manifest = adopt_stored_topic(config, wanted)
    click.echo(
        f"adopted topic {name} ({uuid}) with {counted(topic.partitions, 'partition')}, "
        f"partitioner {partitioner}, retention {topic.retention_s // 86_400} d"
    )
    for number in without_manifest:
        click.echo(
            f"partition {number} has messages, but no manifest: before the server starts, run "
            f"talos log repair {uuid}/{number}"
        )


@log.command()
@click.argument("partition", metavar="[TOPIC/PARTITION]", default="")
@_of_storage
@click.option("--all", "every", is_flag=True, help="All partitions that need it.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Continue with what the files have, although other records prove that there was more.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def repair(
    partition: str,
    config_path: Path | None,
    data: str | None,
    *,
    every: bool,
    accept_loss: bool,
    dry_run: bool,
) -> None:
    """Rebuild the manifest of a partition from its files, while no server runs.

    For a partition that is refused since a store came back older: its manifest does not name the
    newest segments, or is damaged or gone. They are adopted again, so nothing that was acknowledged
    is lost and no offset is given twice. No file is changed or deleted; what only a journal has is
    copied into a file where that is necessary.

    TOPIC is OWNER/NAME or the topic's uuid; --all repairs every partition whose files prove that
    its manifest is older. If the metadata can be restored as it was, do that
    instead. With --accept-loss the log continues behind the last message that is there, and
    positions of consumer groups beyond it no longer refuse it. Files below a gap are named, and
    copied to aside/ in the storage, where they are kept for a week.

    Exit status: 0 done, 1 at least one partition was not repaired, 2 wrong usage.

    Example: talos log repair alice/orders/3 --dry-run --data /var/lib/opentalos
    """
    from opentalos.server.config import load_config
    from opentalos.server.log_verify import repair_stored_log

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    if every == bool(partition):
        raise click.UsageError("need either TOPIC/PARTITION or --all")
    done = repair_stored_log(config, partition, accept_loss=accept_loss, store=not dry_run)
    refused = [each for each in done if each.refusal]
    for each in done:
        if each.refusal:
            click.echo(f"not repaired: {each.refusal}", err=True)
            continue
        for path in each.adopted:
            click.echo(f"{'would adopt' if dry_run else 'adopted'} {path}")
        for text in each.lost:
            click.echo(f"{'would continue' if dry_run else 'continued'} although {text}")
        for path in each.left_out:
            click.echo(f"{'would leave out' if dry_run else 'left out and set aside'} {path}")
        click.echo(
            f"{each.name}: {counted(each.segments, 'segment')} from offset {each.start} to "
            f"{each.end - 1}; before, the manifest had them up to {each.end_before - 1}"
        )
    what = "to repair, nothing was changed" if dry_run else "repaired"
    click.echo(f"{counted(len(done) - len(refused), 'partition')} {what}")
    if refused:
        sys.exit(1)
