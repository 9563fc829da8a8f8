"""Makes the call of a line as a caller, and says what the caller learned from it."""

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.e2e.access import rest_lines, sds_lines, talos_lines
from tests.e2e.access.model import Caller, Line, Outcome
from tests.e2e.access.stage import Stage
from tests.e2e.rest.client import authorization
from tests.raw_client import (
    BINARY,
    COMPACT,
    PROTOCOLS,
    Reply,
    connection_to,
    idl,
    memory_buffer,
    service_of,
    signed_headers,
)
from tests.server_process import Key
from thriftpy2.thrift import TApplicationException, TMessageType

SERVICES = {
    "topic": "topic", "message": "message", "consumer": "consumer", "quota": "quota",
    "metric": "metric", "table": "sds", "admin": "sds", "auth": "sds",
}  # fmt: skip
LINES = (*talos_lines.LINES, *sds_lines.LINES, *rest_lines.LINES)
TALOS_DENIED, TALOS_MISSING, TALOS_UNKNOWN = 28, 5, 30
SDS_DENIED, SDS_MISSING, SDS_UNKNOWN = 21, 26, 31
NOT_THERE = re.compile(r"(topic|table) \S+ does not exist")
STATUSES = {Outcome.DENIED: 403, Outcome.HIDDEN: 404, Outcome.UNKNOWN: 401}


class Answer(NamedTuple):
    """``error``: text of the problem, empty if there is none; ``body``: the reply as text."""

    outcome: Outcome
    error: str
    body: str
    document: Any = None


@dataclass
class Channel:
    """One caller's connection."""

    port: int
    caller: Caller
    key: Key
    connection: http.client.HTTPConnection | None = None

    def call(self, line: Line, stage: Stage) -> Answer:
        """The call of a line."""
        if " " in line.name:
            return self._rest(line, stage)
        service, _, rpc = line.name.partition(".")
        return self._thrift(line, service, rpc, line.arguments(stage))

    def close(self) -> None:
        """The next call opens another connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[Reply, bool]:
        """The reply, and whether it is a stream, which is not read."""
        if self.connection is None:
            self.connection = connection_to(self.port, None)
        self.connection.request(method, path, body, headers)
        found = self.connection.getresponse()
        streams = found.getheader("Content-Type", "").startswith("text/event-stream")
        reply = Reply(found.status, dict(found.getheaders()), b"" if streams else found.read())
        if streams or found.will_close:
            self.close()
        return reply, streams

    def _rest(self, line: Line, stage: Stage) -> Answer:
        path, document = line.arguments(stage)
        headers = {} if self.caller.kind == "nobody" else authorization(self.key)
        body = b"" if document is None else json.dumps(document).encode()
        if document is not None:
            headers["Content-Type"] = "application/json"
        method = line.name.partition(" ")[0]
        reply, streams = self._exchange(method, f"/rest/v1/{path}", body, headers)
        found = json.loads(reply.body) if reply.body and not streams else {}
        if reply.status < 300:
            nested = found.get("items", [{}])[0].get("error") if "batch" in line.name else None
            problem = nested or {"title": "", "detail": ""}
        else:
            problem = found
        outcome = _rest_outcome(line, problem["title"])
        if reply.status >= 300 and outcome is not Outcome.PERMITTED:
            assert reply.status == STATUSES[outcome], (line.title, reply)
        error = f"{problem['title']} {problem['detail']}".strip()
        return Answer(outcome, error, reply.body.decode(), found)

    def _thrift(self, line: Line, service: str, rpc: str, arguments: Any) -> Answer:
        module = idl(SERVICES[service])
        definitions = service_of(module, service)
        sds = SERVICES[service] == "sds"
        form = BINARY if sds else COMPACT  # as the official clients, so also the fast paths
        body = _encoded(getattr(definitions, f"{rpc}_args")(**arguments), rpc, form)
        path = f"/v1/api/{service}"
        headers = signed_headers(path, body, form, self.key)
        if self.caller.anonymous:
            headers["Authorization"] = "Guest nobody"
        elif self.caller.kind == "nobody":
            del headers["Authorization"]
        reply, _ = self._exchange("POST", path, body, headers)
        if reply.status == 401:
            return Answer(Outcome.UNKNOWN, "401", "")
        result = _decoded(getattr(definitions, f"{rpc}_result")(), reply, form)
        success = getattr(result, "success", None)
        code, error = _sds_error(result) if sds else _talos_error(result)
        if code:
            outcome = _coded(code, error, sds)
        elif line.misses is not None and line.misses(success):
            outcome = Outcome.HIDDEN
        else:
            outcome = Outcome.PERMITTED
        return Answer(outcome, error, repr(success))


def _rest_outcome(line: Line, title: str) -> Outcome:
    if title == "InvalidCredential":
        return Outcome.UNKNOWN
    if title == "PermissionDenied":
        return Outcome.DENIED
    return Outcome.HIDDEN if title in line.hidden else Outcome.PERMITTED


def _coded(code: int, text: str, sds: bool) -> Outcome:
    denied, missing, unknown = (
        (SDS_DENIED, SDS_MISSING, SDS_UNKNOWN)
        if sds
        else (TALOS_DENIED, TALOS_MISSING, TALOS_UNKNOWN)
    )
    if code == denied:
        return Outcome.DENIED
    if code == unknown:
        return Outcome.UNKNOWN
    return Outcome.HIDDEN if code == missing and NOT_THERE.search(text) else Outcome.PERMITTED


def _talos_error(result: Any) -> tuple[int, str]:
    """Code and text of the exception, or of the first partition's error."""
    error = getattr(result, "e", None)
    if error is not None:
        return error.errorCode, error.errMsg or str(error.errorCode)
    success = getattr(result, "success", None)
    infos = getattr(success, "offsetInfoList", None) or [getattr(success, "offsetInfo", None)]
    code = getattr(infos[0], "errorCode", None)
    return (code, infos[0].errorMsg) if code else (0, "")


def _sds_error(result: Any) -> tuple[int, str]:
    """Code and text of the exception, or of the first item's."""
    error = getattr(result, "se", None)
    items = getattr(getattr(result, "success", None), "items", None)
    if error is None and items:
        error = items[0].serviceException
    return (error.errorCode, error.errorMessage) if error is not None else (0, "")


def _encoded(arguments: Any, rpc: str, form: str) -> bytes:
    buffer = memory_buffer()
    protocol = PROTOCOLS[form](buffer)
    protocol.write_message_begin(rpc, TMessageType.CALL, 7)
    protocol.write_struct(arguments)
    protocol.write_message_end()
    return bytes(buffer.getvalue())


def _decoded(result: Any, reply: Reply, form: str) -> Any:
    assert reply.headers.get("Content-Type") == form, (result, reply)
    protocol = PROTOCOLS[form](memory_buffer(reply.body))
    _, kind, _ = protocol.read_message_begin()
    if kind == TMessageType.EXCEPTION:
        problem = TApplicationException()
        protocol.read_struct(problem)
        raise AssertionError(f"{result!r}: {problem}")
    protocol.read_struct(result)
    return result
