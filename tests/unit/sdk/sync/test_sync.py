"""The synchronous classes have the calls of the asyncio ones and pass every argument on."""

import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from opentalos import sdk
from opentalos.sdk import aio, tables
from opentalos.sdk.aio import admin as aio_admin
from opentalos.sdk.aio import tables as aio_tables
from opentalos.sdk.sync import admin

PAIRS: list[tuple[type, type]] = [
    (admin.TopicAdmin, aio_admin.TopicAdmin),
    (admin.PermissionAdmin, aio_admin.PermissionAdmin),
    (admin.QuotaAdmin, aio_admin.QuotaAdmin),
    (admin.GroupAdmin, aio_admin.GroupAdmin),
    (sdk.TalosAdmin, aio.TalosAdmin),
    (sdk.SimpleProducer, aio.SimpleProducer),
    (sdk.SimpleConsumer, aio.SimpleConsumer),
    (tables.TableAdmin, aio_tables.TableAdmin),
    (tables.TalosTable, aio_tables.TalosTable),
]
FACETS = {"TopicAdmin": "topics", "PermissionAdmin": "permissions", "QuotaAdmin": "quotas",
          "GroupAdmin": "groups"}  # fmt: skip


def public(cls: type) -> dict[str, Callable[..., Any]]:
    """All but those that yield, which are made of calls of their own."""
    members = inspect.getmembers(cls, inspect.isfunction)
    return {
        name: method for name, method in members if not name.startswith("_") and not yields(method)
    }


def yields(method: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method)


CALLS = [
    pytest.param(ours, name, id=f"{ours.__name__}.{name}")
    for ours, _ in PAIRS
    for name in public(ours)
    if name != "close"
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda cls: cls.__module__)
def test_both_have_the_same_calls(ours: type, theirs: type) -> None:
    assert public(ours).keys() == public(theirs).keys()
    for name, method in public(ours).items():
        mine, other = inspect.signature(method), inspect.signature(public(theirs)[name])
        assert str(mine) == str(other), name


@pytest.mark.parametrize(("ours", "name"), CALLS)
def test_every_argument_is_passed_on(ours: type, name: str) -> None:
    inner = MagicMock()
    made: Any = object.__new__(ours)
    made._on = lambda call: run(call(inner))
    place = getattr(inner, FACETS[ours.__name__]) if ours.__name__ in FACETS else inner
    asked = AsyncMock(return_value="answer")
    setattr(place, name, asked)
    parameters = list(inspect.signature(getattr(made, name)).parameters.values())
    given = {one.name: f"value of {one.name}" for one in parameters}
    result = getattr(made, name)(**given)
    positional, named = asked.await_args or ((), {})
    names = [one.name for one in parameters]
    assert dict(zip(names, positional, strict=False)) | named == given
    assert result in ("answer", None)
    returns_nothing = inspect.signature(getattr(ours, name)).return_annotation in (None, "None")
    assert (result is None) is returns_nothing


def run(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")
