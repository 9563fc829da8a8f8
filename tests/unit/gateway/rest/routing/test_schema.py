"""Errors of REST requests name the field and what is allowed, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.openapi import document
from opentalos.gateway.rest.routing.schema import (
    Schema,
    base64_text,
    check,
    either,
    fields,
    integer,
    items,
    nullable,
    table,
    text,
)
from opentalos.model.errors import BadRequest

SENT = either(fields(value={}, optional={"key": text()}), fields(base64=base64_text(), optional={}))


@pytest.mark.parametrize(
    ("schema", "value", "complaint"),
    [
        (fields(n=integer(1, 9)), {"n": 0}, "body.n must be an integer from 1 to 9"),
        (fields(n=integer()), {}, "body lacks the field n"),
        (fields(n=integer()), {"n": 1, "m": 2}, 'unknown field "m"; the known ones are n'),
        (fields(n=integer()), [], "body must be an object"),
        (items(text(chars_max=2)), ["abc"], "body[0] must have 0 to 2 characters, not 3"),
        (nullable(integer(0, 9)), "a", "body must be an integer from 0 to 9 or null"),
        (nullable(items(integer(0, 9))), [10], "body[0] must be an integer from 0 to 9"),
        (table(integer(), text(chars_min=1)), {"": 1}, "each name in body must have 1 or more"),
        (SENT, {"value": 1, "key": 2}, "body.key must be a string"),
        (SENT, {"base64": "="}, "body.base64 must be base64 with padding"),
        (SENT, {}, "body must be an object with value or an object with base64"),
    ],
)
def test_an_error_names_the_field_and_what_is_allowed(
    schema: Schema, value: object, complaint: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        check(schema, value, "body")
    assert complaint in str(caught.value)


def test_every_published_pattern_is_also_described_in_words() -> None:
    patterns = [part for part in _parts(document(TABLE)) if "pattern" in part]
    assert patterns
    for part in patterns:
        assert part["x-allowed"]
        assert "^" not in part["x-allowed"]


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield value
        for part in value.values():
            yield from _parts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
