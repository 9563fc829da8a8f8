"""What to do about an error, as a note on it: the command line shows both in one line."""

import difflib
from collections.abc import Mapping
from typing import Final

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.model import errors

_NAMES_MAX: Final = 3
_SIMILAR: Final = 0.5  # of difflib: nothing in common is 0, the same text 1
_LOOK_S: Final = 2.0  # for the names of other topics


def explain(
    error: errors.TalosError, server: ServerOptions, arguments: Mapping[str, object]
) -> None:
    """Note what to do about an error of a command with these arguments."""
    hint = _hint(error, server, arguments)
    if hint:
        error.add_note(hint)


def _hint(error: errors.TalosError, server: ServerOptions, arguments: Mapping[str, object]) -> str:
    from opentalos.sdk.errors import ConnectFailed, PositionExpired

    topic, group = arguments.get("topic"), arguments.get("group_name")
    table = arguments.get("table")
    if isinstance(error, errors.TopicNotExist) and isinstance(topic, str):
        return _instead(server, "topic", topic)
    if isinstance(error, errors.TableNotExist) and isinstance(table, str):
        return _instead(server, "table", table)
    if isinstance(error, errors.TableNotEnabled) and isinstance(table, str):
        return f"talos table enable {table} lets it be read and written again"
    if isinstance(error, errors.InvalidCredential):
        return f"check the key {server.config().key_id} (--as, --profile, TALOS_KEY)"
    if isinstance(error, ConnectFailed):
        return "is the server running, and is the address right (--url, --profile, TALOS_URL)?"
    if isinstance(error, PositionExpired) and group is not None:
        return f"talos group reset {topic} {group} --to start goes on with what is still there"
    if isinstance(error, PositionExpired):
        return "--from start reads what is still there"
    if isinstance(error, errors.PermissionDenied) and table is None:
        return "the owner of a topic can allow it with talos acl grant"
    if isinstance(error, errors.ConsumerGroupWorking):
        return "end its workers; one that ended counts as live until its lease is over"
    if isinstance(error, errors.ConsumerGroupNotExist):
        return "talos group list shows those there are"
    if isinstance(error, errors.Unavailable):
        return "nothing was changed; try again"
    return ""


def _instead(server: ServerOptions, kind: str, name: str) -> str:
    """Names like this one among the topics or tables that the caller may see."""
    try:
        query = {"scope": "visible"} if kind == "topic" else None
        found = server.rest(_LOOK_S)("GET", f"{kind}s", query=query)[f"{kind}s"]
    except errors.TalosError:
        found = []
    names = [one["name"] for one in found]
    near = difflib.get_close_matches(name.rpartition("/")[2], names, _NAMES_MAX, _SIMILAR)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"talos {kind} list shows those that you may see"
