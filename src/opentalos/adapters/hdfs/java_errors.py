"""Maps Java exceptions of the HDFS client to our errors, by class and never by text."""

from typing import Any

from opentalos.model.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StorageFull,
    StoreUnavailable,
    TalosError,
)

_MISSING = {"FileNotFoundException"}
_EXISTS = {"FileAlreadyExistsException", "AlreadyBeingCreatedException"}
_FULL = {
    "DSQuotaExceededException",
    "NSQuotaExceededException",
    "QuotaByStorageTypeExceededException",
}
_LEASE_LOST = {"LeaseExpiredException"}
# The call never left this process, or no connection was made.
_NOT_SENT = {
    "ConnectException",
    "ConnectTimeoutException",
    "NoRouteToHostException",
    "UnknownHostException",
    "KerberosAuthException",
    "IllegalArgumentException",
}
# The NameNode answered; the client unwraps these from RemoteException.
_REFUSED = {
    "AccessControlException",
    "ParentNotDirectoryException",
    "SafeModeException",
    "StandbyException",
    "UnresolvedPathException",
}
_REMOTE = "RemoteException"
_TEXT_CHARS_MAX = 400


def class_name(error: Any) -> str:
    """Simple class name; of a RemoteException that of what the NameNode raised."""
    name = str(error.getClass().getSimpleName())
    if name == _REMOTE:
        return str(error.getClassName()).rpartition(".")[2].rpartition("$")[2]
    return name


def text_of(error: Any) -> str:
    """One line without the advice that Hadoop adds."""
    message = error.getMessage()
    lines = str(message).strip().splitlines() if message is not None else []
    text = lines[0].partition("; For more details see")[0] if lines else ""
    return f"{class_name(error)}: {text}"[:_TEXT_CHARS_MAX]


def lease_lost(error: Any) -> bool:
    """Whether the NameNode reports that this writer lost its lease."""
    return class_name(error) in _LEASE_LOST


def permission_denied(error: Any) -> bool:
    """Whether the user of this process lacks the permission."""
    return class_name(error) == "AccessControlException"


def translated(error: Any, name: str, *, changes: bool, retried: bool) -> TalosError:
    """The error of a NameNode call about ``name``.

    ``changes``: the call changes something, so without an answer its outcome is unknown.
    ``retried``: the client may have sent it before, so "not sent" refers to the last attempt only.
    """
    kind = class_name(error)
    text = f"{name}: {text_of(error)}"
    if kind in _MISSING:
        return NotFound(name)
    if kind in _EXISTS:
        return AlreadyExists(name)
    if kind in _FULL:
        return StorageFull(text)
    answered = kind in _REFUSED or str(error.getClass().getSimpleName()) == _REMOTE
    if not changes or answered or (kind in _NOT_SENT and not retried):
        return StoreUnavailable(text)
    return OutcomeUnknown(text)
