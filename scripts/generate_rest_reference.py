"""Write docs/reference/rest.md from the OpenAPI document that the server serves.

Run without arguments; ``--check`` only says whether the page is current.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.openapi import document

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "rest.md"
_I64_MAX = (1 << 63) - 1
_PROBLEM = 400  # and the statuses above it
_INTRO = """# REST

Everything is below `/rest/v1` on the server's one port. `GET /rest/v1/openapi.json` describes it in
OpenAPI 3.1; requests are checked against that very description. This page is generated from it by
`make generate`.

## Rules of every call

- **Who calls.** HTTP basic with key id and secret, or `Authorization: Bearer` with the base64url of
  `KEY_ID:SECRET`. Permissions are those of the Talos protocol. What does not exist and what the
  caller was granted nothing on answer alike, with 404.
- **Bodies** are JSON (`application/json`, also assumed where no type is sent) of at most 1 MiB, and
  4 MiB for messages, with at most 100,000 opening brackets; one raw message
  (`application/octet-stream`) has at most 10 MiB. Unknown fields and parameters are refused with
  400. `Accept` is ignored: each operation has one kind of answer.
- **Names in paths** are percent-encoded. `{topic}` is a plain name, `OWNER/NAME` (so
  `OWNER%2FNAME`) or a resource name.
- **Errors** are problem details (RFC 9457) whose `type` names the condition. `outcome` says
  `not done` or `unknown`; `retry_safe: true` that it was not done and may be sent again as it is.
  503 and 429 are not done and carry `Retry-After`; the outcome of 504 is unknown, and that of 500.
- **Request ids.** `X-Request-Id` is echoed, or made where none is sent; log lines and the problem's
  `instance` have it.
- **Methods.** Another method is answered with 405 and `Allow`; `OPTIONS` tells the methods; `HEAD`
  is `GET` without the body.
- **In a cluster** any server answers. A call about a partition or group of another server is passed
  on to it once; a long poll that was passed on may end after 4 s without messages.

## Putting messages

One request is one block in one partition: all of it is stored, or none. Without a partition in the
path, the partition key tells it, by the rule of the official Java SDK; messages without a key take
turns. Keys of one request that belong to different partitions are refused with 422.

A message has exactly one of `value` (any JSON, stored as its shortest text), `text` (stored as
UTF-8) and `base64`. Reading gives it as asked for by `encoding`; data that is not of that encoding
comes as `base64`.

**Idempotency-Key.** A request that is sent again with its key is stored once. The key becomes a
producer stamp in the log, made of caller, topic, key and request, so this also holds after a crash,
a restart or a take-over, as long as the partition's log remembers the stamp: the last 1,000
producers of a partition, which keys share with idempotent producers of the SDK. Besides, the first
answer is kept for ten minutes (at most 2,000 keys of a caller and 20,000 of a server) and given to
the repeat; another request with the same key is refused with 422 meanwhile. That refusal does not
survive a restart or a take-over: then another request with the same key is one of its own. Of a
repeat that only the log remembers, `base_offset` may be null. A repeat that names neither a
partition nor a partition key finds its first partition only while the topic's partition count is
the same.

## Reading with a group

`POST .../workers` makes the caller a worker of the group, and gives it partitions by the same
leases and the same rule of equal shares as workers of the SDKs; none is ever taken from another
worker. `GET .../workers/{worker}/messages` gives what follows the group's checkpoints, renews the
leases and moves one step to an equal share; the same messages come again until they are committed.
A worker that is silent for `lease_s` loses its partitions and gets 409 `LeaseNotHeld`: it joins
again. After `DELETE` its partitions are free at once. An offset that is no longer kept is 404
`OffsetOutOfRange`; nothing is skipped silently, the group has to be reset.

A checkpoint is the offset of the last processed message, -1 where there is none. Where a group
without a checkpoint begins is the choice of each client; REST workers begin with the first message
that is kept.

## Following a topic

`GET /topics/{topic}/events` is a stream of server-sent events, one for each message. The id of an
event is the next offset of every partition that is followed; with it as `Last-Event-ID` a client
goes on where it was. At most 256 partitions are followed by a stream, 5,000 by all streams of a
server, and there are at most 500 streams. A stream ends after an hour at most, when the server
stops, and when partitions are added: a client that comes again gets them from their first message
on. One that cannot go on, because the topic, the permission or the key is gone or a position is not
kept any more, ends with an event of type `error`. A client that does not read for
`[http] write_stall_s` is cut.

## Rows of tables

A row is an object of values by column, read by the types of the table's columns:

| Type | JSON |
| --- | --- |
| `bool` | true or false |
| `int8` to `int64` | a whole number in its type's range |
| `float`, `double` | a number, or the text `Infinity` or `-Infinity`; NaN is refused |
| `string` | a text |
| `binary`, `rawbinary` | base64 with padding |
| types with `_set` | an array of these; given back in ascending order, each once |
| any | null: the column is not set; a put of null removes it |

`int64` too is a number, which some languages do not read exactly above 2^53; `float` is rounded to
single precision.

A value that does not fit its column, an unknown column, a key that is not whole and a number that
becomes too large are refused with 422 `ValidationFailed`, what is larger than the server takes with
422 `SizeExceeded`; nothing is changed then. A condition that does not hold is no error: `applied`
is false. A table that is disabled answers 409 `TableNotEnabled`, one over its rate 429, one whose
topic takes nothing for long 503. [Conditions of tables](sds-conditions.md) describes `filter`.
"""


def render() -> str:
    """The whole page."""
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
            yield f"\nOr a body of type `{kind}`, taken as it is.\n"
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


def _parameter(one: Mapping[str, Any]) -> Iterator[str]:
    about = one.get("description", "").replace("|", "\\|")
    value = shape(one["schema"], short=True).replace("|", "\\|")
    yield f"| `{one['name']}` | {one['in']} | {value} | {about} |\n"


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
    for name, one in schema.get("properties", {}).items():
        absent = "" if name in schema.get("required", ()) else "  (optional)"
        about = f"  # {one['description']}" if "description" in one else ""
        lines.append(f'{inner}"{name}": {shape(one, inner)}{absent}{about}')
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        lines.append(f"{inner}NAME: {shape(others, inner)}, ...")
    if not lines:
        return "{...}"
    return "{\n" + "\n".join(lines) + f"\n{indent}}}"


def main() -> int:
    """0: the page is current, or was written; 1: ``--check`` found it stale."""
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
