"""Hints on errors: the remedy as a note, which the command line appends to the error line."""

from collections.abc import Mapping
from typing import Final

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.nearest import nearest
from opentalos.model import errors

_TLS_SAID: Final = ("TLS", "certificate")
_LIST_TIMEOUT_S: Final = 2.0  # for listing similar names


def explain(
    error: errors.TalosError, server: ServerOptions, arguments: Mapping[str, object]
) -> None:
    """Add the remedy to an error of a command with these arguments, if there is one."""
    hint = _hint(error, server, arguments)
    if hint:
        error.add_note(hint)


def _hint(error: errors.TalosError, server: ServerOptions, arguments: Mapping[str, object]) -> str:
    from opentalos.sdk.errors import ConnectFailed, PositionExpired

    topic, group = arguments.get("topic"), arguments.get("group_name")
    table = arguments.get("table")
    if isinstance(error, errors.TopicNotExist) and isinstance(topic, str):
        return _similar_names(server, "topic", topic)
    if isinstance(error, errors.TableNotExist) and isinstance(table, str):
        return _similar_names(server, "table", table)
    if isinstance(error, errors.TableNotEnabled) and isinstance(table, str):
        return f"enable it with talos table enable {table}"
    if isinstance(error, errors.InvalidCredential):
        return f"check the key {server.config().key_id} (--as, --profile, TALOS_KEY)"
    if isinstance(error, ConnectFailed) and any(said in str(error) for said in _TLS_SAID):
        return ""  # the text has the remedy
    if isinstance(error, ConnectFailed):
        return "is the server running, and is the address right (--url, --profile, TALOS_URL)?"
    if isinstance(error, PositionExpired) and group is not None:
        return (
            f"skip to the first retained message with talos group reset {topic} {group} --to start"
        )
    if isinstance(error, PositionExpired):
        return "read from the first retained message with --from start"
    if isinstance(error, errors.PermissionDenied) and table is None:
        return "the owner of the topic can grant access with talos acl grant"
    if isinstance(error, errors.ConsumerGroupWorking):
        return "stop its workers first; one that was killed stays listed until its lease expires"
    if isinstance(error, errors.ConsumerGroupNotExist):
        return "list the groups with talos group list"
    if isinstance(error, errors.Unavailable):
        return "nothing was changed; try again"
    return ""


def _similar_names(server: ServerOptions, kind: str, name: str) -> str:
    """Suggest similar names among the topics or tables that are visible to the caller."""
    try:
        query = {"scope": "visible"} if kind == "topic" else None
        found = server.rest(_LIST_TIMEOUT_S)("GET", f"{kind}s", query=query)[f"{kind}s"]
    except errors.TalosError:
        return f"list the visible {kind}s with talos {kind} list"
    if not found:
        return f"you see no {kind}s yet; create one with talos {kind} create {name}"
    plain = name.rpartition("/")[2]
    names = [resource["name"] for resource in found if resource["name"] != name]
    near = nearest(plain, names)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"list the visible {kind}s with talos {kind} list"
