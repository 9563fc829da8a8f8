"""Write src/opentalos/wire/kafka/_generated from idl/kafka; with --check, fail if it is stale.

``idl/kafka`` has the message definitions of Apache Kafka, unchanged, as they are in the jar of its
clients; ``--extract JAR`` copies those of ``NAMES`` from there. Each definition becomes one module:
a class for each struct, with defaults, and its spec, which says what each version contains.
"""

import argparse
import json
import keyword
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IDL = ROOT / "idl" / "kafka"
OUTPUT = ROOT / "src" / "opentalos" / "wire" / "kafka" / "_generated"
IN_JAR = "common/message"
OPEN = 32_767

APIS = (
    "Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup"
    " Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions"
    " CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch DescribeAcls"
    " CreateAcls DeleteAcls DescribeConfigs SaslAuthenticate CreatePartitions DeleteGroups"
    " AlterConfigs IncrementalAlterConfigs OffsetDelete DescribeCluster ConsumerGroupHeartbeat"
    " ConsumerGroupDescribe DescribeTopicPartitions"
).split()
NAMES = (
    *(f"{api}{kind}" for api in APIS for kind in ("Request", "Response")),
    "RequestHeader",
    "ResponseHeader",
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
)

SCALARS = {
    "bool": ("BOOL", "bool", "False"),
    "int8": ("INT8", "int", "0"),
    "int16": ("INT16", "int", "0"),
    "uint16": ("UINT16", "int", "0"),
    "int32": ("INT32", "int", "0"),
    "uint32": ("UINT32", "int", "0"),
    "int64": ("INT64", "int", "0"),
    "float64": ("FLOAT64", "float", "0.0"),
    "string": ("STRING", "str", '""'),
    "uuid": ("UUID", "bytes", "bytes(16)"),
    "bytes": ("BYTES", "bytes", 'b""'),
    "records": ("RECORDS", "bytes | memoryview", 'b""'),
}


def extract(jar: Path) -> None:
    """Copy the definitions from the jar of Kafka's clients."""
    IDL.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(jar) as opened:
        for name in NAMES:
            (IDL / f"{name}.json").write_bytes(opened.read(f"{IN_JAR}/{name}.json"))


def definition(name: str) -> dict[str, Any]:
    """A definition; its comments are lines of their own or end a line."""
    text = (IDL / f"{name}.json").read_text()
    lines = [re.sub(r"^\s*//.*$", "", line) for line in text.splitlines()]
    found: dict[str, Any] = json.loads("\n".join(lines))
    return found


def snake(name: str) -> str:
    """``ThrottleTimeMs`` to ``throttle_time_ms``."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return f"{text}_" if keyword.iskeyword(text) else text


def versions(text: str | None) -> tuple[int, int]:
    """``3+``, ``1-5``, ``2`` or ``none`` to first and last."""
    if text is None or text == "none":
        return 0, -1
    if text.endswith("+"):
        return int(text[:-1]), OPEN
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def range_text(text: str | None) -> str:
    """A range of versions as an expression."""
    first, last = versions(text)
    return f"({first}, {'MAX' if last == OPEN else last})"


class Module:
    """The text of one definition's module."""

    def __init__(self, name: str) -> None:
        self.name, self.source = name, definition(name)
        self.flexible = range_text(self.source.get("flexibleVersions"))
        self.structs: dict[str, list[dict[str, Any]]] = {}  # inner ones first
        self.used: set[str] = set()
        for common in self.source.get("commonStructs", ()):
            self._collect(common["name"], common["fields"])
        self._collect(name, self.source["fields"])

    def _collect(self, name: str, fields: list[dict[str, Any]]) -> None:
        for field in fields:
            inner = field["type"].removeprefix("[]")
            if "fields" in field:
                self._collect(inner, field["fields"])
        self.structs[name] = fields

    def text(self) -> str:
        """The whole module."""
        body = [line for item in self.structs.items() for line in self._class(*item)]
        for name, fields in self.structs.items():
            body += self._spec(name, fields)
        body += self._constants()
        return "\n".join([*self._head("\n".join(body)), *body]) + "\n"

    def _head(self, body: str) -> Iterator[str]:
        yield f'"""Generated from idl/kafka/{self.name}.json by scripts/generate_kafka.py."""'
        yield ""
        yield "from __future__ import annotations"
        yield ""
        if "field(" in body:
            yield "from msgspec import field"
            yield ""
        yield "from opentalos.wire.kafka.spec import ("
        names = {"Field", "KafkaStruct", "struct_spec", *self.used}
        if "MAX" in body:
            names.add("MAX")
        order = sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
        yield from (f"    {name}," for name in order)
        yield ")"
        yield ""

    def _type(self, kind: str) -> tuple[str, str, str]:
        """Expression, annotation and default of a type."""
        if kind.startswith("[]"):
            self.used.add("array_of")
            item, annotation, _ = self._type(kind[2:])
            return f"array_of({item})", f"list[{annotation}]", "[]"
        if kind in SCALARS:
            self.used.add(SCALARS[kind][0])
            return SCALARS[kind]
        self.used.add("struct_of")
        return f"struct_of({kind})", kind, f"field(default_factory={kind})"

    def _default(self, field: dict[str, Any], plain: str) -> str:
        given = field.get("default")
        if given is None:
            return plain
        kind = field["type"]
        if given == "null":
            return "None"
        if kind == "bool":
            return str(given).capitalize()
        if kind.startswith(("int", "uint")):
            return str(int(str(given), 0))
        return repr(given).replace("'", '"')

    def _class(self, name: str, fields: list[dict[str, Any]]) -> Iterator[str]:
        yield ""
        yield f"class {name}(KafkaStruct, kw_only=True):"
        yield f'    """{self.name}.json: {name}."""'
        yield ""
        for field in fields:
            _, annotation, plain = self._type(field["type"])
            null = " | None" if "nullableVersions" in field else ""
            default = self._default(field, plain)
            yield f"    {snake(field['name'])}: {annotation}{null} = {default}"
        yield ""

    def _spec(self, name: str, fields: list[dict[str, Any]]) -> Iterator[str]:
        yield ""
        yield f"{name}.SPEC = struct_spec("
        yield f"    {name},"
        yield f"    {self.flexible},"
        for field in fields:
            kind, _, _ = self._type(field["type"])
            parts = [f'"{snake(field["name"])}"', kind]
            parts.append(range_text(field.get("taggedVersions", field["versions"])))
            if "nullableVersions" in field:
                parts.append(f"nullable={range_text(field['nullableVersions'])}")
            if "tag" in field:
                parts.append(f"tag={field['tag']}")
            yield f"    Field({', '.join(parts)}),"
        yield ")"

    def _constants(self) -> Iterator[str]:
        first, last = versions(self.source["validVersions"])
        yield ""
        if "apiKey" in self.source:
            yield f"API_KEY = {self.source['apiKey']}"
        yield f"VERSIONS = ({first}, {last})"


def generate() -> dict[str, str]:
    """All files of the output directory, as text by file name."""
    files = {"__init__.py": '"""Requests and responses generated from idl/kafka."""\n'}
    for name in NAMES:
        files[f"{snake(name)}.py"] = Module(name).text()
    return files


def main() -> int:
    """Write the files, or compare them with the existing ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the output is not current")
    parser.add_argument("--extract", type=Path, metavar="JAR", help="copy the definitions first")
    asked = parser.parse_args()
    if asked.extract:
        extract(asked.extract)
    files = generate()
    if asked.check:
        found = {path.name: path.read_text() for path in OUTPUT.glob("*.py")}
        stale = sorted(name for name in {*files, *found} if files.get(name) != found.get(name))
        for name in stale:
            sys.stderr.write(f"{name} is not current; run scripts/generate_kafka.py\n")
        return 1 if stale else 0
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (OUTPUT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
