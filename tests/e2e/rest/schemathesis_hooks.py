"""Hooks of schemathesis: nothing waits, nobody disables the key that the run itself uses, and what
is right about rows is asked of a table that is there."""

from typing import Any

import schemathesis
from schemathesis import HookContext
from tests.server_process import ROOT_KEY

ROOT_ID = "root"
ANOTHER = "another"
TABLE = "probe"
WAITS = {"events": "limit_s", "messages": "wait_s"}  # by the last part of the path


@schemathesis.hook
def before_call(context: HookContext, case: Any, kwargs: dict[str, Any]) -> None:
    """Bound a request's time, unless it is to be refused for it."""
    parameter = WAITS.get(case.operation.path.rsplit("/", 1)[-1])
    if parameter and case.method == "GET" and isinstance(case.query, dict):
        if str(case.query.get(parameter, "0")).isdigit():
            limit = 3_600 if parameter == "limit_s" else 30
            if int(case.query.get(parameter, 0)) <= limit:
                case.query[parameter] = 0
    places = case.path_parameters or {}
    if case.operation.path.startswith("/tables/{table}/rows/") and case.meta is not None:
        if case.meta.generation.mode.is_positive:
            places["table"] = TABLE
    if case.operation.path.startswith("/keys/") and places.get("key_id") == ROOT_KEY.key_id:
        places["key_id"] = ANOTHER
    if case.operation.path == "/principals/{id}" and case.method == "PATCH":
        if places.get("id") == ROOT_ID:
            places["id"] = ANOTHER
