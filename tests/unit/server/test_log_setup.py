"""Log lines stay lines."""

import asyncio
import json
import logging
import math
import sys
from typing import Any, cast

import pytest

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.request_scope import current_request_id, request_scope
from opentalos.server.log_setup import JsonFormatter, LineFormatter


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "opentalos.x", "levelname": "INFO", "msg": message})
    vars(made).update(extra)
    made.created, made.msecs = 0.0, 7.0
    return made


def test_a_line_has_time_level_logger_text_and_fields() -> None:
    line = LineFormatter().format(record("done", count=3, name_="a b"))
    assert line == "1970-01-01T00:00:00.007Z info opentalos.x done count=3 name_='a b'"


def test_nothing_breaks_a_line() -> None:
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        made = record("a\nb", field="c\nd", exc_info=sys.exc_info())
    line = LineFormatter().format(made)
    assert "\n" not in line
    assert "ValueError" in line
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("ValueError: one\ntwo")


def as_json(message: str, **extra: object) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(JsonFormatter().format(record(message, **extra))))


def test_json_has_the_same_and_keeps_numbers() -> None:
    assert as_json("done", count=3, share=0.5, flag=True, nothing=None) == {
        "time": "1970-01-01T00:00:00.007Z",
        "level": "info",
        "logger": "opentalos.x",
        "message": "done",
        "count": 3,
        "share": 0.5,
        "flag": True,
        "nothing": None,
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, b"x", object(), "\ud800", {1, 2}, (1,)])
def test_what_json_does_not_have_is_a_text(value: object) -> None:
    assert isinstance(as_json("x", value=value)["value"], str)


def test_a_long_field_is_cut_and_the_line_stays_json() -> None:
    assert len(as_json("x" * 100_000, value="y" * 100_000)["value"]) == 4_000


def test_a_field_cannot_replace_what_every_line_has() -> None:
    found = as_json("text", level="mine", time="never")
    assert (found["level"], found["level_"], found["time_"]) == ("info", "mine", "never")


def exchange(**headers: str) -> Exchange:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Exchange(cast(HttpConnection, None), b"GET", b"/x?a=b&id=talos-1&c=d", sent)


def test_the_id_of_a_request_is_the_callers_or_a_new_one() -> None:
    assert exchange(x_request_id="mine").request_id == "mine"
    assert exchange().request_id == "talos-1"
    strange = exchange(x_request_id="two words\n")
    assert len(strange.request_id) == 16
    assert strange.request_id == strange.request_id


async def test_lines_of_a_request_carry_its_id_and_those_of_what_outlives_it_do_not() -> None:
    seen: list[str] = []

    async def live_on(over: asyncio.Event) -> None:
        seen.append(current_request_id())
        await over.wait()
        seen.append(current_request_id())

    over = asyncio.Event()
    with request_scope(exchange(x_request_id="r1")):
        assert as_json("x")["request"] == "r1"
        assert "request='r1'" in LineFormatter().format(record("x"))
        assert as_json("x", request="other")["request"] == "other"
        task = asyncio.create_task(live_on(over))
        await asyncio.sleep(0)
    over.set()
    await task
    assert seen == ["r1", ""]
    assert "request" not in as_json("x")
