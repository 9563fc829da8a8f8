"""``talos query``: queries of the OLAP store that the pipelines fill."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from opentalos.cli.input.pairs import pair_of
from opentalos.cli.input.pipelines_home import with_pipelines_home
from opentalos.cli.input.times import TIME_HELP, as_time, parse_span, time_text, unix_ms
from opentalos.cli.output.chart.drawing import FORMATS, check_drawable, save_chart
from opentalos.cli.output.formats import Output, with_format
from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from opentalos.pipelines.olap.store import Filter, Measure, OlapStore, Query, Selection

_MISSING: Final = "talos query needs DuckDB and pyarrow: pip install 'opentalos[query]'"
_EXTRA: Final = ("duckdb", "pyarrow")
_DIGITS: Final = 6  # decimal places in text output
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def query() -> None:
    """Query the results of pipelines: time series, top values, groups and percentiles.

    With --plot FILE.svg (or .png) the answer is drawn as well: values over time as curves, others
    as bars. That needs pip install 'opentalos[plot]'.

    The tables metrics_10s, metrics_1m and metrics_1h have the columns service, cluster, machine,
    tenant, topic, partition, measure, kind, total, samples, low, high and last. Rows of a server as
    a whole have an empty topic; rows of its partitions name topic and partition.
    """


def with_options(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add the options of every query, and ``more``."""
    return lambda command: _with_options(command, more)


def _with_options(command: Any, more: Sequence[Callable[[Any], Any]]) -> Any:
    for option in (
        *more,
        click.option(
            "--measure", multiple=True, help="Short for --where measure=NAME.", metavar="NAME"
        ),
        click.option(
            "--where", "wheres", multiple=True, metavar="COLUMN=VALUE",
            help="Select rows; repeat a column for alternatives.",
        ),
        click.option("--until", metavar="TIME", callback=as_time, show_default="now",
                     help="End of the time range, exclusive."),
        click.option("--since", metavar="TIME", callback=as_time, default="1h", show_default=True,
                     help=f"Start of the time range. {TIME_HELP}"),
        _olap, with_pipelines_home, click.argument("table"),
        click.option(
            "--plot", metavar="FILE", callback=_as_chart_file,
            help="Also draw the answer: FILE.png or FILE.svg.",
        ),
    ):  # fmt: skip
        command = option(command)
    return with_format(command)


def _olap(command: CommandT) -> CommandT:
    return click.option(
        "--olap", default="", metavar="URL",
        help="OLAP store: druid://HOST:PORT,HOST:PORT, delta+hdfs://HOST:PORT/PATH, "
        "delta+s3://BUCKET/PATH or file:///PATH.",
        show_default="Parquet below --home",
    )(command)  # fmt: skip


def _as_chart_file(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Path | None:
    """Callback: the file of a chart; what would fail after the query fails before it."""
    if value is None:
        return None
    path = Path(value)
    if path.suffix.lower() not in FORMATS:
        raise click.BadParameter(f"{value!r} must end in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}")
    check_drawable()
    return path


def _span(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int:
    """Callback: a duration in milliseconds; 0: not given."""
    if value is None:
        return 0
    try:
        found = int(parse_span(value).total_seconds() * 1000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from error
    if not found:
        raise click.BadParameter("must be at least 1s")
    return found


_BY: Final = click.option(
    "--by", multiple=True, metavar="COLUMN", help="Group by this column; repeatable."
)
_VALUES: Final = click.option(
    "--value", "values", metavar="VALUE", multiple=True, default=("sum:total",), show_default=True,
    help="Value to compute: sum:, min:, max: or avg: with a column, total/samples for a ratio of "
    "sums, or count; repeatable.",
)  # fmt: skip


def _every(default: str | None, shown: bool | str) -> Callable[[Any], Any]:
    return click.option(
        "--every", "step_ms", metavar="SPAN", callback=_span, default=default, show_default=shown,
        help="Interval of the series: 10s, 5m, 1h, 1d.",
    )  # fmt: skip


def _limit(default: int) -> Callable[[Any], Any]:
    return click.option("--limit", metavar="N", type=click.IntRange(1, 1_000_000), default=default,
                        show_default=True, help="Maximum number of rows.")  # fmt: skip


@query.command()
@with_pipelines_home
@_olap
@with_format
def tables(home: Path, olap: str, output: Output) -> None:
    """List the tables and their columns.

    Example: talos query tables
    """
    with closing(_open(home, olap)) as store:
        found = [{"table": table.name, "columns": list(table.columns)} for table in store.tables()]
    output.table(("table", "columns"), found, empty="no tables")


@query.command()
@with_options(_every("1m", True), _BY, _VALUES, _limit(10_000))
def series(values: tuple[str, ...], by: tuple[str, ...], step_ms: int, **given: Any) -> None:
    """Show values of TABLE over time.

    Example: talos query series metrics_10s --measure put_bytes --by topic --every 10s --since 5m
    """
    from opentalos.pipelines.olap.store import Series

    limit, rows = given["limit"], _selection(**given)
    made = Series(rows=rows, step_ms=step_ms, measures=_measures(values), by=by, limit=limit)
    _show(made, **given)


@query.command()
@with_options(_BY, _VALUES, _limit(10))
def top(values: tuple[str, ...], by: tuple[str, ...], **given: Any) -> None:
    """Rank the groups of TABLE (--by) by the first value, largest first.

    Example: talos query top metrics_1h --measure put_bytes --by tenant --since 7d
    """
    from opentalos.pipelines.olap.store import Top

    if not by:
        raise click.UsageError("missing --by COLUMN: what to rank")
    rows = _selection(**given)
    _show(Top(rows=rows, by=by, measures=_measures(values), limit=given["limit"]), **given)


@query.command()
@with_options(_BY, _VALUES, _limit(10_000))
def group(values: tuple[str, ...], by: tuple[str, ...], **given: Any) -> None:
    """Show values of TABLE for each combination of --by columns.

    Example: talos query group metrics_1m --measure lane_depth --by machine --value max:high
    """
    from opentalos.pipelines.olap.store import Group

    rows = _selection(**given)
    _show(Group(rows=rows, by=by, measures=_measures(values), limit=given["limit"]), **given)


@query.command()
@with_options(
    click.option(
        "-p", "--percent", "percents", metavar="P", multiple=True, type=click.FloatRange(0, 100),
        default=(50.0, 90.0, 99.0), show_default=True, help="Percentile; repeatable.",
    ),
    _every(None, "the whole time range"), _BY, _limit(10_000),
)  # fmt: skip
def percentile(
    percents: tuple[float, ...], by: tuple[str, ...], step_ms: int, table: str, **given: Any
) -> None:
    """Show percentiles of TABLE, computed from sketches.

    Tables with sketches: metrics_10s, metrics_1m, metrics_1h. The relative error of a
    percentile is at most 1 %.

    Example: talos query percentile metrics_1m --measure put_ms -p 99 --by machine --since 1d
    """
    from opentalos.pipelines.olap.store import SKETCHES, Percentile

    sketches = table if table.endswith(SKETCHES) else table + SKETCHES
    rows, limit = _selection(table=sketches, **given), given["limit"]
    _show(Percentile(rows=rows, percents=percents, by=by, step_ms=step_ms, limit=limit), **given)


def _open(home: Path, olap: str) -> "OlapStore":
    try:
        from opentalos.pipelines.monitoring.rollup_tables import METRICS
        from opentalos.pipelines.olap.opening import open_olap
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise ConfigError(_MISSING) from error
    return open_olap(home, olap, (METRICS,))


def _show(
    made: "Query", *, home: Path, olap: str, output: Output, plot: Path | None, **_: Any
) -> None:
    with closing(_open(home, olap)) as store:
        found = store.query(made)
    rows = found.to_pylist()
    if plot is not None:
        from opentalos.cli.output.chart.content import chart_of

        save_chart(chart_of(made, rows), plot)
    for row in rows:
        if "time" in row:
            row["time"] = time_text(row["time"])
        if output.form == "text":
            row.update({name: _shown(value) for name, value in row.items()})
    output.table(found.column_names, rows, empty="no rows")


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, _DIGITS)
    return value


def _selection(
    *, table: str, since: datetime, until: datetime | None, wheres: Sequence[str],
    measure: Sequence[str], **_: Any,
) -> "Selection":  # fmt: skip
    from opentalos.pipelines.olap.store import Selection

    return Selection(
        table=table,
        start_ms=unix_ms(since),
        end_ms=unix_ms(until or datetime.now(UTC)),
        filters=_filters([*wheres, *(f"measure={name}" for name in measure)]),
    )


def _filters(wheres: Sequence[str]) -> "tuple[Filter, ...]":
    from opentalos.pipelines.olap.store import Filter

    values: dict[str, list[str]] = {}
    for text in wheres:
        column, value = pair_of(text, "--where", "COLUMN=VALUE")
        values.setdefault(column, []).append(value)
    return tuple(Filter(column, tuple(found)) for column, found in values.items())


def _measures(values: Sequence[str]) -> "tuple[Measure, ...]":
    """Parse ``sum:total``, ``total/samples`` or ``count``. Raises: BadRequest: no such function."""
    from opentalos.pipelines.olap.store import Measure

    made = []
    for text in values:
        function, colon, column = text.partition(":")
        total, slash, per = text.partition("/")
        if colon:
            made.append(Measure(f"{function}_{column}", function, column))
        elif slash:
            made.append(Measure(f"{total}_per_{per}", "sum", total, per))
        else:
            made.append(Measure(text, text))
    return tuple(made)
