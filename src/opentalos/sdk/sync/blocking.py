"""Derives synchronous methods from asyncio ones, so that each signature stands once.

``put = blocking(aio.SimpleProducer.put)`` in a class body makes a method with the parameters, the
result and the docstring of the asyncio method. It runs that method on the SDK's loop thread and
waits for the result. Type checkers and editors get the signature through ``ParamSpec``, ``help``
and ``inspect`` through ``functools.wraps``. The synchronous classes of this package use it;
docs/adr/0017-synchronous-sdk.md says why the code is neither generated nor written twice.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from opentalos.sdk.aio.connection.client import Client as AsyncClient
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.sync.client import Bound, Client, attach

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Inner = TypeVar("_Inner")
_COPIED = ("__name__", "__qualname__", "__doc__", "__annotations__")


class Synchronous(ABC, Generic[_Inner]):
    """A synchronous object in front of an asyncio one."""

    @abstractmethod
    def _run(self, call: Callable[[_Inner], Coroutine[Any, Any, _T]]) -> _T:
        """Run ``call`` with the asyncio object on the loop thread, and wait for its result."""


class BoundObject(Synchronous[_Inner]):
    """Makes its asyncio object with the first call, and once more in a forked child."""

    def __init__(self, client: Client, make: Callable[[AsyncClient], _Inner]) -> None:
        self._client = client
        self._bound: Bound[_Inner] = client.bind(make)

    def _run(self, call: Callable[[_Inner], Coroutine[Any, Any, _T]]) -> _T:
        return self._bound(call)


class ClientObject(BoundObject[_Inner]):
    """A public object that any thread may use, also in a forked child.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(
        self, client: Client | ClientConfig, make: Callable[[AsyncClient], _Inner]
    ) -> None:
        attached, self._owned = attach(client)
        super().__init__(attached, make)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            self._client.close()


def blocking(
    method: Callable[Concatenate[_Inner, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Synchronous[_Inner], _P], _T]:
    """A method that runs this coroutine method on the loop thread and waits for its result."""

    def call(self: Synchronous[_Inner], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._run(lambda inner: method(inner, *args, **kwargs))

    wraps(method, _COPIED)(call)
    return call


def blocking_on_loop(
    method: Callable[Concatenate[_Inner, _P], _T],
) -> Callable[Concatenate[Synchronous[_Inner], _P], _T]:
    """The same for a method that does not wait but may be called on the event loop only."""

    def call(self: Synchronous[_Inner], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        async def on_loop(inner: _Inner) -> _T:
            return method(inner, *args, **kwargs)

        return self._run(on_loop)

    wraps(method, _COPIED)(call)
    return call


def iterating(
    method: Callable[Concatenate[Any, _P], AsyncGenerator[_T, None]],
) -> Callable[[Callable[..., Iterator[_T]]], Callable[Concatenate[Any, _P], Iterator[_T]]]:
    """Gives a hand-written iteration the signature and docstring of an asynchronous one.

    An asynchronous generator would cost a change of threads per item and not survive a fork. The
    arguments are checked against the signature at the call, before the first item is asked for.
    """

    def decorate(written: Callable[..., Iterator[_T]]) -> Callable[..., Iterator[_T]]:
        returned = inspect.signature(written).return_annotation
        signature = inspect.signature(method).replace(return_annotation=returned)

        def call(*args: Any, **kwargs: Any) -> Iterator[_T]:
            signature.bind(*args, **kwargs)
            return written(*args, **kwargs)

        wraps(method, _COPIED)(call)
        vars(call)["__signature__"] = signature
        return call

    return decorate
