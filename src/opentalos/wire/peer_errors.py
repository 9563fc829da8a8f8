"""Errors as servers of a cluster send them to each other: one document for every error.

    {"error": NAME, "text": TEXT, "branch": BRANCH}

NAME is the class in ``model/errors.py``. BRANCH says what the caller may do (RequestError:
wrong request, Unavailable: not done, OutcomeUnknown), for a caller whose version does not know
NAME yet. A NotOwner adds where the partition is served. Servers before version 1 of the peer
protocol send no branch; an error that they alone know is unknown to the caller.
"""

from collections.abc import Mapping
from typing import Any, Final

from opentalos.model.errors import (
    ERRORS_BY_NAME,
    NotOwner,
    OutcomeUnknown,
    RequestError,
    TalosError,
    Unavailable,
)

_BRANCHES: Final = (RequestError, Unavailable, OutcomeUnknown)


def error_document(error: TalosError) -> dict[str, Any]:
    """The fields that carry an error, for JSON."""
    # A text may quote bytes that are no Unicode, which JSON bytes cannot have.
    text = str(error).encode("utf-8", "backslashreplace").decode()
    document = {"error": type(error).__name__, "text": text}
    for branch in _BRANCHES:
        if isinstance(error, branch):
            document["branch"] = branch.__name__
    if isinstance(error, NotOwner):
        document |= {"address": error.address, "topic_uuid": error.topic_uuid}
    return document


def error_of(
    document: Mapping[str, Any], otherwise: type[TalosError] = OutcomeUnknown
) -> TalosError:
    """The error of a document. ``otherwise``: for a name and a branch that are not known here."""
    name, text = str(document.get("error", "")), str(document.get("text", ""))
    kind = ERRORS_BY_NAME.get(name)
    if kind is None:
        kind = ERRORS_BY_NAME.get(str(document.get("branch", "")), otherwise)
        return kind(f"{name or 'error without a name'}: {text}")
    if kind is NotOwner:
        address, topic_uuid = document.get("address", ""), document.get("topic_uuid", "")
        return NotOwner(text, str(address), str(topic_uuid))
    return kind(text)
