"""The schema of a table as options and files say it, made into what REST takes."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final, TypeVar

import click

TYPES: Final = (
    "bool, int8, int16, int32, int64, float, double, string, binary, rawbinary, or one of them "
    "with _set"
)
VIEWS: Final = ("record-image", "mutate-log", "keys-only")
RIGHTS: Final = ("app-read", "app-write", "public-read", "public-write")
_MODES: Final = ("lazy", "eager", "immutable")
_DESCENDING: Final = "desc"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def with_schema_options(command: CommandT) -> CommandT:
    """The options that say what a new table is."""
    for option in (
        click.option("--schema", "file", type=click.File("r"), help="JSON as REST takes it."),
        click.option("--ttl", "ttl_s", type=click.IntRange(1), metavar="SECONDS",
                     help="Rows vanish so long after their last write."),
        click.option("--quota", "quota_bytes", type=click.IntRange(1), metavar="BYTES",
                     help="That its rows may take."),
        click.option("--stream", "streams", metavar="TOPIC[:VIEW[:COLUMN,...]]", multiple=True,
                     help=f"View: {', '.join(VIEWS)} (default mutate-log)."),
        click.option("--index", "indexes", metavar="NAME:COLUMN[,...][:MODE]", multiple=True,
                     help="Inside an entity group. Mode: lazy, eager (default), immutable."),
        click.option("--column", "columns", metavar="NAME:TYPE", multiple=True,
                     help="A column beside the key."),
        click.option("--shards", type=click.IntRange(1), help="Parts with an owner each."),
        click.option("--slices", type=click.IntRange(1), hidden=True),
        click.option("--hashed", is_flag=True, help="Rows lie by the hash of the group first."),
        click.option("--group", "group", metavar="NAME:TYPE[:desc]", multiple=True,
                     help="A column of the entity group, which goes before the key."),
        click.option("--key", "primary", metavar="NAME:TYPE[:desc]", multiple=True,
                     help="A column of the primary key, in order."),
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
    """What a new table is: of the file, and what options say beside or instead of it."""
    wanted: dict[str, Any] = {} if file is None else _document(file)
    typed: dict[str, str] = {}
    for name, given, option in (("group", group, "--group"), ("key", primary, "--key")):
        if given:
            parts = [_key_part(one, option) for one in given]
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
        raise click.UsageError("say what the key is: --key NAME:TYPE, or a file with --schema")
    return wanted


def columns_of(given: Sequence[str]) -> dict[str, str]:
    """Types by column of options NAME:TYPE."""
    return dict(_pair(one, "--column", "NAME:TYPE") for one in given)


def indexes_of(given: Sequence[str]) -> dict[str, Any]:
    """Indexes by name."""
    found = {}
    for one in given:
        name, rest = _pair(one, "--index", "NAME:COLUMN[,COLUMN...][:MODE]")
        columns, _, mode = rest.partition(":")
        index: dict[str, Any] = {"columns": _names(columns, one, "--index")}
        if mode:
            index["mode"] = _choice(mode, _MODES, "--index")
        found[name] = index
    return found


def streams_of(given: Sequence[str]) -> dict[str, Any]:
    """Streams by topic."""
    found = {}
    for one in given:
        topic, _, rest = one.partition(":")
        view, _, columns = rest.partition(":")
        if not topic:
            raise click.BadParameter(f"{one!r} names no topic", param_hint="--stream")
        stream: dict[str, Any] = {"view": _choice(view or "mutate-log", VIEWS, "--stream")}
        if columns:
            stream["columns"] = _names(columns, one, "--stream")
        found[topic] = stream
    return found


def rights_of(given: str) -> tuple[str, list[str]]:
    """A principal and what it may do."""
    who, rights = _pair(given, "--allow", "PRINCIPAL:RIGHT[,RIGHT...]")
    return who, [_choice(one, RIGHTS, "--allow") for one in rights.split(",")]


def _document(file: IO[str]) -> dict[str, Any]:
    try:
        found = json.load(file)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}", param_hint="--schema") from None
    if not isinstance(found, dict):
        raise click.BadParameter("is no JSON object", param_hint="--schema")
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
        wanted = ", ".join(choices)
        raise click.BadParameter(f"{text!r} is not one of {wanted}", param_hint=option)
    return text
