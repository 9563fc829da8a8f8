"""``talos pipeline``: runs of data pipelines on Spark."""

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.pairs import pair_of
from opentalos.cli.input.pipelines_home import with_lake, with_pipelines_home
from opentalos.cli.output.formats import Output, with_format
from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from opentalos.pipelines.runtime.run_plan import Event, RunPlan

_SUBMIT_MODULE = "opentalos.cli.spark_submit.talos_pipeline"
_SUPERVISOR_ONLY = {"stall_s", "restarts_max", "alarm_hook"}
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def pipeline() -> None:
    """Run data pipelines on Spark: monitoring, metering, billing, archive and more.

    Pipelines need pip install 'opentalos[spark]' and Java 17 or newer.
    """


@pipeline.command(name="list")
@with_format
def list_pipelines(output: Output) -> None:
    """List the pipelines and their options.

    Example: talos pipeline list
    """
    from opentalos.pipelines.pipeline import StreamPipeline
    from opentalos.pipelines.registry import PIPELINES, load

    rows: list[dict[str, Any]] = []
    for name in PIPELINES:
        found = load(name)
        kind = "stream" if isinstance(found, StreamPipeline) else "batch"
        rows.append({"name": name, "kind": kind, "about": found.about, "options": found.options})
    if output.form != "text":
        output.table(("name", "kind", "about", "options"), rows)
        return
    for row in rows:
        click.echo(f"{row['name']:<18}{row['kind']:<8}{row['about']}")
        for option, does in row["options"].items():
            click.echo(f"    -o {row['name']}.{option}=...  {does}")


@pipeline.command(name="submit-file")
def submit_file() -> None:
    """Print the path of the file to give to spark-submit.

    The arguments after it are those of "talos pipeline". Spark's cluster, its settings and its
    Python are those of the submission.

    Example: spark-submit --master yarn $(talos pipeline submit-file) run archive --key-file key
    """
    found = find_spec(_SUBMIT_MODULE)
    assert found is not None
    click.echo(found.origin)


def _run_options(command: CommandT) -> CommandT:
    run: Any = command
    for option in (
        click.option("--verbose", is_flag=True, help="Show the log of Spark and stack traces."),
        click.option(
            "--conf", multiple=True, metavar="NAME=VALUE", help="Spark setting; repeatable."
        ),
        click.option(
            "--master", metavar="URL", show_default="that of spark-submit, else local[*]",
            help="Spark master URL.",
        ),
        click.option(
            "--outage", "outage_s", metavar="DURATION",
            type=Duration(click.FloatRange(0)), default=300.0, show_default=True,
            help="How long a server may be unreachable before the run fails.",
        ),
        click.option(
            "--lease", "lease_s", metavar="DURATION",
            type=Duration(click.FloatRange(3, 3600)), default=60.0, show_default=True,
            help="Time after which another host takes over from a run that is out of reach.",
        ),
        click.option(
            "--available-now", is_flag=True, help="Process existing messages, then exit."
        ),
        click.option(
            "--every", "every_s", metavar="DURATION",
            type=Duration(click.FloatRange(0, min_open=True)),
            help="Time between two runs of a batch pipeline.", show_default="run once",
        ),
        click.option(
            "--messages-per-trigger", metavar="N",
            type=click.IntRange(1),
            show_default="500000; archive, and with --lake metering and monitoring: 250000 per "
            "task if that is more",
            help="Maximum messages per batch of a stream pipeline.",
        ),
        click.option(
            "--trigger", "trigger_s", metavar="DURATION",
            type=Duration(click.FloatRange(0)), default=10.0, show_default=True,
            help="Time between two batches of a stream pipeline.",
        ),
        click.option("--olap", default="", metavar="URL",
                     help="OLAP store: druid://HOST:PORT,HOST:PORT, "
                     "delta+hdfs://HOST:PORT/PATH, delta+s3://BUCKET/PATH or file:///PATH.",
                     show_default="Parquet below --home"),
        click.option(
            "-o", "options", multiple=True, metavar="NAME.OPTION=VALUE",
            help="Pipeline option; repeatable. See talos pipeline list.",
        ),
        with_lake,
        with_pipelines_home,
        click.argument("names", nargs=-1, required=True),
    ):  # fmt: skip
        run = option(run)
    return with_server(run)  # type: ignore[return-value]


def _format(command: CommandT) -> CommandT:
    return click.option(
        "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True,
        help="Output format; json: one object per line.",
    )(command)  # fmt: skip


@pipeline.command()
@click.option(
    "--supervised",
    is_flag=True,
    hidden=True,
    help="Exit at the end of stdin; for a supervisor's child process.",
)
@_run_options
@_format
def run(form: str, supervised: bool, **given: Any) -> None:
    """Run pipelines in one Spark session.

    Each pipeline resumes from its checkpoint. If one fails, the others are stopped and the exit
    status is 1; the next run neither repeats nor skips messages.

    Example: talos pipeline run monitoring metering --home /var/lib/talos-pipelines
    """
    from opentalos.pipelines.runtime.runner import Runner

    plan = _plan(given, supervised=supervised)
    try:
        Runner(plan, _printer(form)).run()
    except Exception as error:
        if given["verbose"] and error.__cause__ is not None:
            click.echo(str(error.__cause__), err=True)
        raise


@pipeline.command()
@click.option(
    "--stall",
    "stall_s",
    metavar="DURATION",
    type=Duration(click.FloatRange(0, min_open=True)),
    help="Time without progress after which a stream pipeline counts as hung.",
    show_default="30 triggers, at least 60",
)
@click.option(
    "--restarts",
    "restarts_max",
    metavar="N",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Give up after this many restarts in quick succession.",
)
@click.option(
    "--alarm-hook",
    default="",
    metavar="COMMAND|URL",
    help="Send each alarm as JSON to the stdin of a command, or to an http(s) URL by POST.",
)
@_run_options
@_format
def supervise(
    form: str, alarm_hook: str, restarts_max: int, stall_s: float | None, **given: Any
) -> None:
    """Supervise a run: restart it when it dies or hangs, and raise an alarm.

    For high availability, start supervisors with the same --home on several machines: one is
    active, the others are on standby. An alarm is a line on stderr, a call of the alarm hook and a
    measurement of service "pipelines".

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
    Supervisor(supervision, alarm, _printer(form)).run()


def _run_command() -> tuple[str, ...]:
    """This command line with ``run`` for ``supervise``, and without the options of supervise."""
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
            for element in values:
                argv += [parameter.opts[-1], str(element)]
    return tuple(argv)


def _plan(given: dict[str, Any], *, supervised: bool) -> "RunPlan":
    """The run that the options describe."""
    from opentalos.pipelines.pipeline import (
        MESSAGES_PER_TASK_MAX,
        MESSAGES_PER_TRIGGER_MAX,
        PipelineSettings,
    )
    from opentalos.pipelines.runtime.run_plan import RunPlan, parse_options
    from opentalos.pipelines.session import is_submitted

    server: ServerOptions = given["server"]
    if is_submitted():
        _check_submitted(server, supervised=supervised)
    config = server.config()
    limit = given["messages_per_trigger"]
    conf = dict(pair_of(text, "--conf", "NAME=VALUE") for text in given["conf"])
    if given["verbose"]:
        conf.setdefault("spark.log.level", "WARN")
    return RunPlan(
        names=tuple(dict.fromkeys(given["names"])),
        settings=PipelineSettings(
            url=",".join(config.endpoints),
            key=f"{config.key_id}:{config.secret}",
            home=given["home"].absolute(),
            lake=given["lake"],
            olap=given["olap"],
            trigger_s=given["trigger_s"],
            available_now=given["available_now"],
            max_messages_per_trigger=limit or MESSAGES_PER_TRIGGER_MAX,
            messages_per_task=0 if limit else MESSAGES_PER_TASK_MAX,
        ),
        options=parse_options(given["options"]),
        every_s=given["every_s"],
        outage_s=given["outage_s"],
        lease_s=given["lease_s"],
        master=given["master"],
        conf=conf,
        supervised=supervised,
    )


def _check_submitted(server: ServerOptions, *, supervised: bool) -> None:
    """Refuse what spark-submit cannot run, or would show. Raises: ConfigError."""
    if supervised:
        raise ConfigError(
            "spark-submit runs one run and cannot be supervised from inside; use talos pipeline "
            "supervise --master URL, or restart spark-submit itself"
        )
    if server.key is not None:
        raise ConfigError("Spark's pages show --as; pass --key-file, or set TALOS_KEY")


def _printer(form: str) -> "Callable[[Event], None]":
    """A printer of events: progress to stdout, the rest to stderr; as JSON, all to stdout."""

    def show(event: "Event") -> None:
        if form == "json":
            fields = {"text": event.text} if not event.fields else event.fields
            click.echo(json.dumps({"event": event.kind, **fields}))
        else:
            click.echo(event.text, err=event.kind != "progress")
        sys.stdout.flush()

    return show
