"""The schema of a table from options and files, as a REST document."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final, TypeVar

import click

from opentalos.cli.input.durations import Duration
from opentalos.cli.renamed import RenamedOption

TYPES: Final = (
    "bool, int8, int16, int32, int64, float, double, string, binary, rawbinary, or one of these "
    "with the suffix _set"
)
VIEWS: Final = ("record-image", "mutate-log", "keys-only")
RIGHTS: Final = ("app-read", "app-write", "public-read", "public-write")
_MODES: Final = ("lazy", "eager", "immutable")
_DESCENDING: Final = "desc"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def with_schema_options(command: CommandT) -> CommandT:
    """Add the options that describe a new table."""
    for option in (
        click.option("--schema", "file", type=click.File("r"), metavar="FILE",
                     help="Read the schema from a JSON file in the REST format."),
        click.option("--ttl", "ttl_s", type=Duration(click.IntRange(1)), metavar="DURATION",
                     help="Delete rows this long after their last write."),
        click.option("--quota", "quota_bytes", type=click.IntRange(1), metavar="BYTES",
                     help="Storage limit of the rows."),
        click.option("--stream", "streams", metavar="TOPIC[:VIEW[:COLUMN,...]]", multiple=True,
                     help=f"Publish changes to TOPIC. VIEW: {', '.join(VIEWS)} (default "
                     "mutate-log). Repeatable."),
        click.option("--index", "indexes", metavar="NAME:COLUMN[,...][:MODE]", multiple=True,
                     help="Index within an entity group. MODE: lazy, eager (default), immutable. "
                     "Repeatable."),
        click.option("--column", "columns", metavar="NAME:TYPE", multiple=True,
                     help="Column outside the key; repeatable."),
        click.option("--shards", metavar="N",
                     type=click.IntRange(1), cls=RenamedOption, former="--slices",
                     help="Number of shards, each with its own owner."),
        click.option("--hashed", is_flag=True, help="Order rows by the hash of the entity group."),
        click.option("--group", "group", metavar="NAME:TYPE[:desc]", multiple=True,
                     help="Column of the entity group, which precedes the key; repeatable, in "
                     "order."),
        click.option("--key", "primary", metavar="NAME:TYPE[:desc]", multiple=True,
                     help="Column of the primary key; repeatable, in order."),
    ):  # fmt: skip
        command = option(command)
    return command


def new_table(
    file: IO[str] | None,
    *,
    primary: Sequence[str],
    group: Sequence[str],
    columns: Sequence[str],
    indexes: Sequence[str],
    streams: Sequence[str],
    **others: Any,
) -> dict[str, Any]:
    """The document of a new table: the file, overridden by the options."""
    wanted: dict[str, Any] = {} if file is None else _document(file)
    typed: dict[str, str] = {}
    for name, given, option in (("group", group, "--group"), ("key", primary, "--key")):
        if given:
            parts = [_key_part(text, option) for text in given]
            wanted[name] = [part for part, _ in parts]
            typed |= {part["column"]: kind for part, kind in parts}
    typed |= columns_of(columns)
    for name, found in (
        ("columns", typed), ("indexes", indexes_of(indexes)), ("streams", streams_of(streams)),
    ):  # fmt: skip
        if found:
            wanted[name] = {**wanted.get(name, {}), **found}
    wanted |= {name: value for name, value in others.items() if value}
    if "key" not in wanted:
        raise click.UsageError("no key; pass --key NAME:TYPE or --schema FILE")
    return wanted


def columns_of(given: Sequence[str]) -> dict[str, str]:
    """The types by column of options NAME:TYPE."""
    return dict(_pair(text, "--column", "NAME:TYPE") for text in given)


def indexes_of(given: Sequence[str]) -> dict[str, Any]:
    """The indexes by name."""
    found = {}
    for text in given:
        name, rest = _pair(text, "--index", "NAME:COLUMN[,COLUMN...][:MODE]")
        columns, _, mode = rest.partition(":")
        index: dict[str, Any] = {"columns": _names(columns, text, "--index")}
        if mode:
            index["mode"] = _choice(mode, _MODES, "--index")
        found[name] = index
    return found


def streams_of(given: Sequence[str]) -> dict[str, Any]:
    """The streams by topic."""
    found = {}
    for text in given:
        topic, _, rest = text.partition(":")
        view, _, columns = rest.partition(":")
        if not topic:
            raise click.BadParameter(f"{text!r} names no topic", param_hint="--stream")
        stream: dict[str, Any] = {"view": _choice(view or "mutate-log", VIEWS, "--stream")}
        if columns:
            stream["columns"] = _names(columns, text, "--stream")
        found[topic] = stream
    return found


def rights_of(given: str) -> tuple[str, list[str]]:
    """A principal and its rights."""
    principal, rights = _pair(given, "--allow", "PRINCIPAL:RIGHT[,RIGHT...]")
    return principal, [_choice(right, RIGHTS, "--allow") for right in rights.split(",")]


def _document(file: IO[str]) -> dict[str, Any]:
    try:
        found = json.load(file)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--schema") from None
    if not isinstance(found, dict):
        raise click.BadParameter("not a JSON object", param_hint="--schema")
    return found


def _key_part(text: str, option: str) -> tuple[Mapping[str, Any], str]:
    name, kind = _pair(text, option, f"NAME:TYPE[:{_DESCENDING}]")
    kind, colon, direction = kind.partition(":")
    if colon:
        _choice(direction, ("asc", _DESCENDING), option)
    return {"column": name, "descending": direction == _DESCENDING}, kind


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, _, rest = text.partition(":")
    if not name or not rest:
        raise click.BadParameter(f"{text!r} is not {form}", param_hint=option)
    return name, rest


def _names(text: str, whole: str, option: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise click.BadParameter(f"{whole!r} names no column", param_hint=option)
    return names


def _choice(text: str, choices: Sequence[str], option: str) -> str:
    if text not in choices:
        allowed = ", ".join(choices)
        raise click.BadParameter(f"{text!r} is not one of {allowed}", param_hint=option)
    return text
