"""``talos pipeline``: data pipelines on Spark."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.pipelines_home import with_pipelines_home
from opentalos.cli.output.formats import Output, with_format

if TYPE_CHECKING:
    from opentalos.pipelines.runtime.run_plan import Event, RunPlan

_SUPERVISOR_ONLY = {"stall_s", "restarts_max", "alarm_hook"}
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
        with_pipelines_home,
        click.argument("names", nargs=-1, required=True),
    ):  # fmt: skip
        run = option(run)
    return with_server(run)  # type: ignore[return-value]


def _format(command: CommandT) -> CommandT:
    return click.option(
        "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True,
        help="json: one object per line.",
    )(command)  # fmt: skip


@pipeline.command()
@click.option(
    "--supervised", is_flag=True, hidden=True, help="End when stdin does, as a supervisor's child."
)
@_run_options
@_format
def run(form: str, supervised: bool, **given: Any) -> None:
    """Run pipelines in one Spark session.

    Each goes on where its checkpoint is. If one fails, the others are stopped and the exit status
    is 1; a new run repeats nothing and leaves nothing out.

    Example: talos pipeline run monitoring metering --home /var/lib/talos-pipelines
    """
    from opentalos.pipelines.runtime.runner import Runner

    plan = _plan(given, supervised=supervised)
    try:
        Runner(plan, _sayer(form)).run()
    except Exception as error:
        if given["verbose"] and error.__cause__ is not None:
            click.echo(str(error.__cause__), err=True)
        raise


@pipeline.command()
@click.option(
    "--stall",
    "stall_s",
    type=click.FloatRange(0, min_open=True),
    help="Seconds without progress after which a stream counts as hung.",
    show_default="30 triggers, at least 60",
)
@click.option(
    "--restarts",
    "restarts_max",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Give up after so many restarts within minutes of each other.",
)
@click.option(
    "--alarm-hook",
    default="",
    metavar="COMMAND|URL",
    help="Gets each alarm as JSON: a command on stdin, an http(s) URL by POST.",
)
@_run_options
@_format
def supervise(
    form: str, alarm_hook: str, restarts_max: int, stall_s: float | None, **given: Any
) -> None:
    """Keep a run alive: restart it when it dies or hangs, and raise an alarm.

    Start it on several machines or terminals for the same --home: one works, the others wait and
    take over. An alarm is a line on stderr, the hook's call and a measurement of the service
    "pipelines".

    Example: talos pipeline supervise monitoring --home /var/lib/talos-pipelines
    """
    from opentalos.pipelines.runtime.alarm import Alarm
    from opentalos.pipelines.runtime.supervised_child import LifeSigns
    from opentalos.pipelines.runtime.supervisor import Supervision, Supervisor

    plan = _plan(given, supervised=True)
    plan.load()
    trigger_s = plan.settings.trigger_s
    supervision = Supervision(
        home=plan.settings.home,
        names=plan.names,
        argv=_run_command(),
        signs=LifeSigns(stall_s=stall_s or max(60.0, 30 * trigger_s)),
        restarts_max=restarts_max,
    )
    alarm = Alarm(plan.settings, alarm_hook)
    Supervisor(supervision, alarm, _sayer(form)).run()


def _run_command() -> tuple[str, ...]:
    """This command line with ``run`` in place of ``supervise`` and without its own options."""
    context = click.get_current_context()
    argv = [sys.executable, "-m", "opentalos.cli.main", "pipeline", "run", "--supervised"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in _SUPERVISOR_ONLY or value is None:
            continue
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Argument):
            argv += map(str, values)
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            argv += parameter.opts[-1:] if value else []
        else:
            for one in values:
                argv += [parameter.opts[-1], str(one)]
    return tuple(argv)


def _plan(given: dict[str, Any], *, supervised: bool) -> "RunPlan":
    """What the options of ``run`` say."""
    from opentalos.pipelines.pipeline import PipelineSettings
    from opentalos.pipelines.runtime.run_plan import RunPlan, parse_options

    server: ServerOptions = given["server"]
    config = server.config()
    conf = dict(_pair(text) for text in given["conf"])
    if given["verbose"]:
        conf.setdefault("spark.log.level", "WARN")
    return RunPlan(
        names=tuple(dict.fromkeys(given["names"])),
        settings=PipelineSettings(
            url=",".join(config.endpoints),
            key=f"{config.key_id}:{config.secret}",
            home=given["home"].absolute(),
            olap=given["olap"],
            trigger_s=given["trigger_s"],
            available_now=given["available_now"],
            max_messages_per_trigger=given["messages_per_trigger"],
        ),
        options=parse_options(given["options"]),
        every_s=given["every_s"],
        outage_s=given["outage_s"],
        master=given["master"],
        conf=conf,
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
