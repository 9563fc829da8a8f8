"""Maps Java exceptions of the HBase client to our errors, by class and never by text."""

from collections.abc import Iterator
from typing import Any

from opentalos.model.errors import (
    BadRequest,
    NotFound,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
)

_NO_TABLE = {"TableNotFoundException"}
_WRONG = {"IllegalArgumentException"}  # the client did not even send it
# No connection was made, or the server that was asked refused before it did anything.
# Source: HBase 2.6, RSRpcServices.checkOpen, getRegion and RpcServer's call queue.
_NOT_DONE = {
    "AccessDeniedException",
    "CallQueueTooBigException",
    "ConnectException",
    "ConnectTimeoutException",
    "FailedServerException",
    "LockTimeoutException",
    "MasterNotRunningException",
    "NamespaceNotFoundException",
    "NoRouteToHostException",
    "NoServerForRegionException",
    "NoSuchColumnFamilyException",
    "NotServingRegionException",
    "PleaseHoldException",
    "RegionMovedException",
    "RegionOfflineException",
    "RegionOpeningException",
    "RegionServerAbortedException",
    "RegionServerStoppedException",
    "RegionTooBusyException",
    "ServerNotRunningYetException",
    "ServerTooBusyException",
    "TableNotEnabledException",
    "UnknownHostException",
}
_CAUSES_MAX = 10
_TEXT_CHARS_MAX = 300


def translated(error: Any, name: str, *, changes: bool) -> TalosError:
    """The error of one try of a call about ``name``.

    ``changes``: the call changes something, so without an answer its outcome is unknown.
    """
    chain = list(_causes(error))
    kinds = {str(cause.getClass().getSimpleName()) for cause in chain}
    text = f"{name}: {_text(chain[-1])}"
    if kinds & _NO_TABLE:
        return NotFound(f"table {name} was not opened")
    if kinds & _WRONG:
        return BadRequest(text)
    if not changes or kinds & _NOT_DONE:
        return StoreUnavailable(text)
    return OutcomeUnknown(text)


def is_a(error: Any, kind: str) -> bool:
    """Whether the exception or a cause of it is of that class."""
    return any(str(cause.getClass().getSimpleName()) == kind for cause in _causes(error))


def _causes(error: Any) -> Iterator[Any]:
    for _ in range(_CAUSES_MAX):
        if error is None:
            return
        yield error
        several = list(error.getCauses()) if hasattr(error, "getCauses") else []  # of a batch
        error = several[0] if several else error.getCause()


def _text(error: Any) -> str:
    message = error.getMessage()
    lines = str(message).strip().splitlines() if message is not None else []
    return f"{error.getClass().getSimpleName()}: {lines[0] if lines else ''}"[:_TEXT_CHARS_MAX]
