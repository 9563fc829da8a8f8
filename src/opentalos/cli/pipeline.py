"""``talos pipeline``: data pipelines on Spark."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opentalos.cli.connection import ServerOptions, with_server
from opentalos.cli.output import Output, with_format

if TYPE_CHECKING:
    from opentalos.pipelines.run_plan import Event, RunPlan

HOME_DEFAULT = Path("talos-pipelines")
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def pipeline() -> None:
    """Data pipelines on Spark: monitoring, metering, billing, archive and more.

    They need pip install 'opentalos[spark]' and Java 17 or newer.
    """


@pipeline.command(name="list")
@with_format
def list_pipelines(output: Output) -> None:
    """Show the pipelines and their options.

    Example: talos pipeline list
    """
    from opentalos.pipelines.pipeline import StreamPipeline
    from opentalos.pipelines.registry import PIPELINES, load

    rows: list[dict[str, Any]] = []
    for name in PIPELINES:
        one = load(name)
        kind = "stream" if isinstance(one, StreamPipeline) else "batch"
        rows.append({"name": name, "kind": kind, "about": one.about, "options": one.options})
    if output.form != "text":
        output.table(("name", "kind", "about", "options"), rows)
        return
    for row in rows:
        click.echo(f"{row['name']:<18}{row['kind']:<8}{row['about']}")
        for option, does in row["options"].items():
            click.echo(f"    -o {row['name']}.{option}=...  {does}")


def _run_options(command: CommandT) -> CommandT:
    run: Any = command
    for option in (
        click.option("--verbose", is_flag=True, help="Spark's own log and stack traces."),
        click.option(
            "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; repeatable."
        ),
        click.option(
            "--master", default="local[*]", show_default=True, help="Spark's master URL."
        ),
        click.option(
            "--outage", "outage_s", type=click.FloatRange(0), default=300.0, show_default=True,
            help="Seconds that a server may be away before the run fails.",
        ),
        click.option(
            "--available-now", is_flag=True, help="End when what is there now is processed."
        ),
        click.option(
            "--every", "every_s", type=click.FloatRange(0, min_open=True),
            help="Seconds from one run of a batch pipeline to the next.", show_default="run once",
        ),
        click.option(
            "--messages-per-trigger", type=click.IntRange(1), default=500_000, show_default=True,
            help="Most messages of one batch of a stream.",
        ),
        click.option(
            "--trigger", "trigger_s", type=click.FloatRange(0), default=10.0, show_default=True,
            help="Seconds from one batch of a stream to the next.",
        ),
        click.option("--olap", default="", help="druid://HOST:PORT,HOST:PORT.",
                     show_default="Parquet below --home"),
        click.option(
            "-o", "options", multiple=True, metavar="NAME.OPTION=VALUE",
            help="An option of a pipeline; repeatable. See talos pipeline list.",
        ),
        click.option(
            "--home", type=click.Path(path_type=Path, file_okay=False), default=HOME_DEFAULT,
            show_default=True, help="Where checkpoints and results are.",
        ),
        click.argument("names", nargs=-1, required=True),
    ):  # fmt: skip
        run = option(run)
    return with_server(run)  # type: ignore[return-value]


@pipeline.command()
@click.option("--supervised", is_flag=True, hidden=True)
@_run_options
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text")
def run(form: str, supervised: bool, verbose: bool, **given: Any) -> None:
    """Run pipelines in one Spark session.

    Each goes on where its checkpoint is. If one fails, the others are stopped and the exit status
    is 1; a new run repeats nothing and leaves nothing out.

    Example: talos pipeline run monitoring metering --home /var/lib/talos-pipelines
    """
    from opentalos.pipelines.runner import Runner

    plan = _plan(supervised=supervised, verbose=verbose, **given)
    try:
        Runner(plan, _sayer(form)).run()
    except Exception as error:
        if verbose and error.__cause__ is not None:
            click.echo(str(error.__cause__), err=True)
        raise


def _plan(
    *, server: ServerOptions, names: Sequence[str], options: Sequence[str], conf: Sequence[str],
    supervised: bool, verbose: bool, every_s: float | None, outage_s: float, master: str,
    messages_per_trigger: int, **settings: Any,
) -> "RunPlan":  # fmt: skip
    from opentalos.pipelines.pipeline import PipelineSettings
    from opentalos.pipelines.run_plan import RunPlan, parse_options

    config = server.config()
    home: Path = settings.pop("home")
    spark = dict(_pair(text) for text in conf)
    if verbose:
        spark.setdefault("spark.log.level", "WARN")
    return RunPlan(
        names=tuple(dict.fromkeys(names)),
        settings=PipelineSettings(
            url=",".join(config.endpoints),
            key=f"{config.key_id}:{config.secret}",
            home=home.absolute(),
            max_messages_per_trigger=messages_per_trigger,
            **settings,
        ),
        options=parse_options(options),
        every_s=every_s,
        outage_s=outage_s,
        master=master,
        conf=spark,
        supervised=supervised,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f"--conf {text!r}: need NAME=VALUE")
    return name, value


def _sayer(form: str) -> "Callable[[Event], None]":
    """Progress goes to stdout, the rest to stderr; as JSON all of it to stdout."""

    def say(event: "Event") -> None:
        if form == "json":
            fields = {"text": event.text} if not event.fields else event.fields
            click.echo(json.dumps({"event": event.kind, **fields}))
        else:
            click.echo(event.text, err=event.kind != "progress")
        sys.stdout.flush()

    return say
