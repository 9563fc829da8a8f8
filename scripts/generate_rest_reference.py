"""Write docs/reference/rest.md from the OpenAPI document that the server serves.

With ``--check``, only report whether the page is current.
"""

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.openapi import document

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "rest.md"
_I64_MAX = (1 << 63) - 1
_PROBLEM = 400  # and the statuses above it
_INTRO = """# REST

All paths are below `/rest/v1` on the server's single port. `GET /rest/v1/openapi.json` describes
the API in OpenAPI 3.1, and requests are validated against that description. This page is
generated from it by `make generate`.

## General rules

- **Authentication.** HTTP basic with key ID and secret, or `Authorization: Bearer` with the
  base64url encoding of `KEY_ID:SECRET`. Permissions are those of the Talos protocol. A resource
  that does not exist and one on which the caller has no permission both return 404.
- **Bodies** are JSON (`application/json`, also assumed if no type is sent) of at most 1 MiB, for
  messages 4 MiB, with at most 100,000 opening brackets; a raw message
  (`application/octet-stream`) has at most 10 MiB. Unknown fields and parameters are rejected with
  400. `Accept` is ignored: each operation has one response type.
- **Names in paths** are percent-encoded. `{topic}` is a plain name, `OWNER/NAME` (encoded as
  `OWNER%2FNAME`) or a resource name.
- **Errors** are problem details (RFC 9457) whose `type` names the condition. `outcome` is `not
  done` or `unknown`; `retry_safe: true` means not done and safe to retry unchanged. 503 and 429
  mean not done and carry `Retry-After`; after 504 and 500 the outcome is unknown.
- **Request IDs.** `X-Request-Id` is echoed, or generated if absent; it appears in log lines and
  as `instance` of problems.
- **Methods.** An unsupported method returns 405 with `Allow`; `OPTIONS` lists the methods; `HEAD`
  is `GET` without the body.
- **In a cluster** any server accepts any request. A request for a partition or group of another
  server is forwarded to it once; a forwarded long poll may return after 4 s without messages.

## Putting messages

A request is one block in one partition: it is stored as a whole or not at all. Without a
partition in the path, the partition key selects the partition, by the rule of the official Java
SDK; messages without a key are distributed round-robin. Keys of one request that belong to
different partitions are rejected with 422.

A message has exactly one of `value` (any JSON, stored in its shortest form), `text` (stored as
UTF-8) and `base64`. Reads return it as requested by `encoding`, or as `base64` if the data does
not have that encoding.

**Idempotency-Key.** A request that is retried with its key is stored once. The key becomes a
producer stamp in the log, derived from caller, topic, key and request, so this also holds after a
crash, a restart or a failover, as long as the log of the partition remembers the stamp: it
remembers the last 1,000 producers of the partition, including idempotent producers of the SDK. In
addition, the first response is kept for ten minutes (at most 2,000 keys per caller and 20,000 per
server) and returned to a retry; a different request with the same key is rejected with 422 during
that time. The rejection does not survive a restart or a failover: after that, a different request
with the same key counts as a new one. If only the log remembers a request, the `base_offset` of
the retry may be null. A retry that names neither a partition nor a partition key finds its first
partition only while the partition count of the topic is unchanged.

## Reading with a group

`POST .../workers` makes the caller a worker of the group. It gets partitions by the same leases
and the same balancing rule as workers of the SDKs; partitions are never taken from another
worker. `GET .../workers/{worker}/messages` returns the messages after the checkpoints of the
group, renews the leases and moves one step towards an equal share; the same messages are returned
until they are committed. A worker that is silent for `lease_s` loses its partitions and gets 409
`LeaseNotHeld`: it must join again. `DELETE` releases the partitions immediately. An offset that
is no longer retained is 404 `OffsetOutOfRange`; messages are never skipped silently, and the
group has to be reset.

A checkpoint is the offset of the last processed message, or -1. Each client chooses where a group
without a checkpoint starts; REST workers start with the first retained message.

## Leases

A lease lets processes of a tenant agree which of them acts. `PUT /leases/{lease}` takes it, and the
reply has its `epoch`, which is higher than that of any holder before. Renew it with that epoch
every third of `ttl_ms`; count `ttl_ms` from before the request, and stop when it has passed without
a renewal, or when one is refused with 409 `LeaseNotHeld`. `DELETE` makes it free at once; otherwise
another holder gets it when the server has seen no renewal for `ttl_ms`, by a clock that never
jumps. A lease does not stop a paused process: let whatever it writes keep the highest epoch seen,
and refuse lower ones. `holder` must be unique to a process. A tenant has at most 100 leases.

## Following a topic

`GET /topics/{topic}/events` is a stream of server-sent events, one per message. The ID of an
event has the next offset of every followed partition; a client that sends it as `Last-Event-ID`
resumes there. A stream follows at most 256 partitions, all streams of a server at most 5,000, and
a server has at most 500 streams. A stream ends after an hour at most, when the server stops, and
when partitions are added: a client that reconnects gets the new partitions from their first
message on. A stream that cannot continue, because the topic, the permission or the key was
removed or a position is no longer retained, ends with an event of type `error`. A client that
does not read for `[http] write_stall_s` is disconnected.

## Rows of tables

A row is an object of values by column, according to the types of the columns:

| Type | JSON |
| --- | --- |
| `bool` | true or false |
| `int8` to `int64` | an integer in the range of the type |
| `float`, `double` | a number, or the string `Infinity` or `-Infinity`; NaN is rejected |
| `string` | a string |
| `binary`, `rawbinary` | base64 with padding |
| types with `_set` | an array of these; returned in ascending order without duplicates |
| any | null: the column is not set; a put of null removes it |

`int64` is a number too, which some languages do not read exactly above 2^53; `float` is rounded
to single precision.

A value that does not fit its column, an unknown column, an incomplete key and an integer overflow
are rejected with 422 `ValidationFailed`, values above the size limits with 422 `SizeExceeded`;
nothing is changed. A condition that does not hold is not an error: `applied` is false. A disabled
table returns 409 `TableNotEnabled`, a table over its rate 429, a table with a stream whose topic
accepts no messages for long 503. [Conditions of tables](sds-conditions.md) describes `filter`.
"""


def render() -> str:
    """Render the page."""
    api = document(TABLE)
    parts = [_INTRO]
    for tag in api["tags"]:
        parts.append(f"\n## {tag['name'].capitalize()}\n")
        for path, operations in api["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    parts += _operation(method.upper(), path, operation)
    return "".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### {method} {path}\n\n{operation['summary']}\n"
    if "description" in operation:
        yield f"\n{operation['description']}\n"
    rows = [row for parameter in operation["parameters"] for row in _parameter(parameter)]
    if rows:
        yield "\n| Parameter | In | Value | Meaning |\n| --- | --- | --- | --- |\n"
        yield from rows
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if content["schema"]:
            yield f"\nBody:\n\n```text\n{shape(content['schema'])}\n```\n"
        else:
            yield f"\nOr a raw body of type `{kind}`.\n"
    problems: list[str] = []
    for status, reply in operation["responses"].items():
        if int(status) >= _PROBLEM:
            problems.append(status)
        elif "content" not in reply:
            yield f"\n{status}: no body.\n"
        else:
            ((kind, content),) = reply["content"].items()
            if kind == "application/json":
                yield f"\n{status}:\n\n```text\n{shape(content['schema'])}\n```\n"
            else:
                yield f"\n{status}: `{kind}`.\n"
    yield f"\nProblems: {', '.join(problems)}.\n"


def _parameter(parameter: Mapping[str, Any]) -> Iterator[str]:
    about = parameter.get("description", "").replace("|", "\\|")
    value = shape(parameter["schema"], short=True).replace("|", "\\|")
    yield f"| `{parameter['name']}` | {parameter['in']} | {value} | {about} |\n"


def shape(schema: Mapping[str, Any], indent: str = "", *, short: bool = False) -> str:
    """A schema as a reader wants it: JSON with the kinds of its values."""
    for name in ("oneOf", "anyOf"):
        if name in schema:
            return " or ".join(shape(item, indent, short=short) for item in schema[name])
    match schema.get("type"):
        case "object":
            return _object(schema, indent)
        case "array":
            return f"[{shape(schema['items'], indent, short=short)}, ...]"
        case "integer":
            return _integer(schema["minimum"], schema["maximum"])
        case "string":
            return " or ".join(schema["enum"]) if "enum" in schema else "text"
        case "boolean":
            return "true or false"
        case None:
            return "any JSON"
        case kind:
            return str(kind)


def _integer(minimum: int, maximum: int) -> str:
    if maximum == _I64_MAX:
        return "integer" if minimum <= 0 else f"integer from {minimum}"
    return f"{minimum} to {maximum}"


def _object(schema: Mapping[str, Any], indent: str) -> str:
    inner = indent + "  "
    lines: list[str] = []
    for name, field in schema.get("properties", {}).items():
        absent = "" if name in schema.get("required", ()) else "  (optional)"
        described = (each for each in (field, *field.get("anyOf", ())) if "description" in each)
        about = "".join(f"  # {each['description']}" for each in islice(described, 1))
        lines.append(f'{inner}"{name}": {shape(field, inner)}{absent}{about}')
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        lines.append(f"{inner}NAME: {shape(others, inner)}, ...")
    if not lines:
        return "{...}"
    return "{\n" + "\n".join(lines) + f"\n{indent}}}"


def main() -> int:
    """Exit with 0 if the page is current or was written, with 1 if ``--check`` finds it stale."""
    text = render()
    if sys.argv[1:] == ["--check"]:
        current = PAGE.exists() and PAGE.read_text() == text
        print(f"{PAGE.name} is {'current' if current else 'stale: run make generate'}")
        return 0 if current else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
