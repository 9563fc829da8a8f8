"""Tables described by options."""

import io
import json
from typing import Any

import click
import pytest

from opentalos.cli.commands.table.schema import indexes_of, new_table, streams_of

NOTHING: dict[str, Any] = {"primary": (), "group": (), "columns": (), "indexes": (), "streams": ()}


def made(**given: Any) -> dict[str, Any]:
    return new_table(given.pop("file", None), **{**NOTHING, **given})


def test_options_describe_a_whole_table() -> None:
    found = made(
        primary=("id:int64:desc",), group=("user:string",), columns=("kind:string", "n:int32"),
        indexes=("by_kind:kind,n:lazy",), streams=("changes", "images:record-image:kind,n"),
        hashed=True, shards=8, ttl_s=60, description=None,
    )  # fmt: skip
    assert found == {
        "group": [{"column": "user", "descending": False}],
        "key": [{"column": "id", "descending": True}],
        "columns": {"user": "string", "id": "int64", "kind": "string", "n": "int32"},
        "indexes": {"by_kind": {"columns": ["kind", "n"], "mode": "lazy"}},
        "streams": {
            "changes": {"view": "mutate-log"},
            "images": {"view": "record-image", "columns": ["kind", "n"]},
        },
        "hashed": True,
        "shards": 8,
        "ttl_s": 60,
    }


def test_options_add_to_a_file() -> None:
    base = {"key": ["id"], "columns": {"id": "int64", "a": "bool"}, "ttl_s": 5}
    found = made(file=io.StringIO(json.dumps(base)), columns=("b:string",), ttl_s=9)
    assert found == {
        "key": ["id"], "columns": {"id": "int64", "a": "bool", "b": "string"}, "ttl_s": 9,
    }  # fmt: skip


def test_a_table_needs_a_key() -> None:
    with pytest.raises(click.UsageError, match="no key; pass --key"):
        made(columns=("a:bool",))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"primary": ("id",)}, "'id' is not NAME:TYPE"),
        ({"primary": ("id:int64:down",)}, "'down' is not one of asc, desc"),
        ({"columns": ("a:",)}, "'a:' is not NAME:TYPE"),
        ({"file": io.StringIO("{")}, "not JSON"),
        ({"file": io.StringIO("[]")}, "not a JSON object"),
    ],
)
def test_invalid_options_are_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        made(**given)
    assert says in caught.value.message


@pytest.mark.parametrize("text", ["by", "by:", "by:a,,b", "by:a:eagerly"])
def test_an_invalid_index_is_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter):
        indexes_of([text])


@pytest.mark.parametrize("text", [":mutate-log", "t:everything", "t:keys-only:,"])
def test_an_invalid_stream_is_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter):
        streams_of([text])
