"""What a handler knows of its call beyond the request: peer, deadline and the URL's hint."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.model.identity import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Facts of one call that come from HTTP and not from the Thrift message."""

    peer: str  # the client's address, without port
    deadline_ms: int | None = None  # wall time after which the caller no longer waits
    transferred: bool = False  # another server passed the call on
    rpc_hint: str = ""  # the URL's ``type`` parameter; the name in the message decides


# (broker, caller, request struct or None, context) to the result struct, None for void.
# Errors are raised as leaves of model.errors; the dispatcher turns them into replies.
Handler = Callable[[Broker, Principal, Any, CallContext], Awaitable[Any]]
Handlers = Mapping[str, Mapping[str, Handler]]  # service name, then RPC name
