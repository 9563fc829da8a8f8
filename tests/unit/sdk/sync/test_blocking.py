"""The synchronous classes have the calls of the asyncio ones and pass every argument on."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, TypeVar, get_type_hints

import pytest
from tests.unit.matrix import matrix

from opentalos import sdk
from opentalos.sdk import aio, stream, tables
from opentalos.sdk.aio import admin as aio_admin
from opentalos.sdk.aio import stream as aio_stream
from opentalos.sdk.aio import tables as aio_tables
from opentalos.sdk.aio.tables.scan import ScanQuery
from opentalos.sdk.sync import admin
from opentalos.sdk.sync.blocking import Synchronous, blocking, blocking_on_loop, iterating

T = TypeVar("T")
PAIRS: list[tuple[type, type]] = [
    (admin.TopicAdmin, aio_admin.TopicAdmin),
    (admin.PermissionAdmin, aio_admin.PermissionAdmin),
    (admin.QuotaAdmin, aio_admin.QuotaAdmin),
    (admin.GroupAdmin, aio_admin.GroupAdmin),
    (sdk.TalosAdmin, aio.TalosAdmin),
    (sdk.SimpleProducer, aio.SimpleProducer),
    (sdk.SimpleConsumer, aio.SimpleConsumer),
    (sdk.TalosProducer, aio.TalosProducer),
    (sdk.TalosConsumer, aio.TalosConsumer),
    (tables.TableAdmin, aio_tables.TableAdmin),
    (tables.TalosTable, aio_tables.TalosTable),
    (stream.ChangeReader, aio_stream.ChangeReader),
    (stream.TableFollower, aio_stream.TableFollower),
]
PARTS = {admin.TopicAdmin, admin.PermissionAdmin, admin.QuotaAdmin, admin.GroupAdmin}
# Signatures that differ: only a synchronous flush needs a timeout of its own.
DIFFERENT = {(sdk.TalosProducer, "flush")}


def public(cls: type) -> dict[str, Any]:
    """Methods and properties of a class, by name."""
    members = inspect.getmembers(cls, lambda found: inspect.isfunction(found) or is_property(found))
    return {name: member for name, member in members if not name.startswith("_")}


def is_property(member: object) -> bool:
    return isinstance(member, property)


def derived(cls: type) -> dict[str, Callable[..., Any]]:
    """Methods that run one of the asyncio class, those made of several calls left out."""
    return {
        name: member
        for name, member in public(cls).items()
        if hasattr(member, "__wrapped__") and not inspect.isasyncgenfunction(member.__wrapped__)
    }


def shown(member: Any) -> str:
    """A signature as both sides have it: iterations and callbacks named as in synchronous code."""
    if is_property(member):
        return str(get_type_hints(member.fget)["return"])
    text = str(inspect.signature(member))
    if (start := text.find("AsyncGenerator[")) >= 0:
        text = text[:start] + text[start:].replace("AsyncGenerator[", "Iterator[")
        text = text.replace(", NoneType]", "]").replace(", None]", "]")
    return text.replace("collections.abc.Awaitable[NoneType]", "NoneType").replace(
        "collections.abc.Awaitable[None]", "None"
    )


@matrix(("ours", "theirs"), PAIRS)
def test_both_have_the_same_calls(ours: type, theirs: type) -> None:
    assert public(ours).keys() - {"close"} == public(theirs).keys() - {"close"}
    assert hasattr(ours, "close") == hasattr(theirs, "close")
    for name, member in public(ours).items():
        if (ours, name) not in DIFFERENT:
            assert shown(member) == shown(public(theirs)[name]), name


@matrix(("ours", "theirs"), PAIRS)
def test_both_are_made_with_the_same_arguments(ours: type, theirs: type) -> None:
    if ours in PARTS:
        return
    mine, other = (inspect.signature(cls).parameters.values() for cls in (ours, theirs))
    assert [(found.name, found.kind, found.default) for found in mine] == [
        (found.name, found.kind, found.default) for found in other
    ]
    assert [found.annotation for found in mine][1:] == [found.annotation for found in other][1:]


@matrix(("ours", "theirs"), PAIRS)
def test_every_derived_call_is_that_of_the_same_name(ours: type, theirs: type) -> None:
    for name, method in derived(ours).items():
        assert inspect.unwrap(method) is getattr(theirs, name)
        assert method.__doc__ == getattr(theirs, name).__doc__


class Counter:
    """An asyncio class."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, tuple[str, ...], int]] = []

    async def add(self, amount: int, *notes: str, times: int = 1) -> int:
        """Add an amount."""
        self.calls.append((amount, notes, times))
        return amount * times

    def total(self, *, scale: int = 1) -> int:
        """May be called on the loop only."""
        asyncio.get_running_loop()
        return scale * sum(amount * times for amount, _, times in self.calls)

    async def items(self, first: int = 0) -> AsyncGenerator[int, None]:
        """Amounts from an index on."""
        for amount, _, _ in self.calls[first:]:
            yield amount


class BlockingCounter(Synchronous[Counter]):
    """The same for synchronous code."""

    def __init__(self) -> None:
        self.inner = Counter()

    add = blocking(Counter.add)
    total = blocking_on_loop(Counter.total)

    @iterating(Counter.items)
    def items(self, *args: Any, **kwargs: Any) -> Iterator[int]:
        amounts = [amount for amount, _, _ in self.inner.calls]
        return iter(amounts[kwargs.get("first", *args) :])

    def _run(self, call: Callable[[Counter], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run(call(self.inner))


def test_every_argument_is_passed_on() -> None:
    counter = BlockingCounter()
    assert counter.add(2) == 2
    assert counter.add(3, "a", "b", times=4) == 12
    assert counter.inner.calls == [(2, (), 1), (3, ("a", "b"), 4)]
    assert counter.total(scale=10) == 140
    assert list(counter.items(1)) == [3]


def test_an_error_is_raised_as_it_is() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        BlockingCounter().add(1, often=3)  # type: ignore[call-arg]


def test_an_iteration_shows_the_parameters_of_the_asynchronous_one() -> None:
    signature = inspect.signature(BlockingCounter.items)
    assert str(signature) == "(self, first: int = 0) -> collections.abc.Iterator[int]"
    assert BlockingCounter.items.__doc__ == Counter.items.__doc__


def test_a_query_takes_the_arguments_of_the_call_it_is_made_from() -> None:
    table = aio_tables.TalosTable
    states, query = (inspect.signature(made) for made in (table.states, table._states_query))
    assert states.parameters == query.parameters
    scan = inspect.signature(table.scan).parameters
    fields = list(inspect.signature(ScanQuery).parameters)
    assert list(scan)[1:] == fields[: len(scan) - 1]


def test_an_iteration_checks_its_arguments_at_the_call() -> None:
    config = sdk.ClientConfig(endpoints=("http://127.0.0.1:1",), key_id="key", secret="secret")
    with tables.TalosTable(config, "t") as table:
        with pytest.raises(TypeError, match="too many positional"):
            table.scan({}, {}, "index")  # type: ignore[call-arg, misc, arg-type, unused-ignore]
        with pytest.raises(TypeError, match="versions"):
            table.scan(versions=True)  # type: ignore[call-arg, unused-ignore]
