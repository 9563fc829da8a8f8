"""Write src/opentalos/wire/_generated from idl/; with --check, fail if it is stale.

Types, required fields, defaults and enums come from the definitions. Three things are added:
structs that serve as map keys or set items are frozen, so that they hash by value, the fields of
``LENIENT`` may be missing when decoding, and structs get their fields of ``EXTENSION``.
"""

import argparse
import functools
import keyword
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import thriftpy2
from thriftpy2.thrift import TType

ROOT = Path(__file__).resolve().parent.parent
IDL = ROOT / "idl"
OUTPUT = ROOT / "src" / "opentalos" / "wire" / "_generated"
ENTRIES = ("talos.thrift", "sds.thrift")  # with their includes; they assign paths to services
EXTENSION = "opentalos.thrift"  # additional fields of structs, all optional
EXTENSION_FIELD_MIN = 1001
PACKAGE = "opentalos.wire._generated"

# Required by the definitions, missing in what a client sends.
# talos-python3 revokes a permission with a setPermission message that lacks this field.
LENIENT = {("SetPermissionRequest", "permission")}

SCALARS = {
    TType.BOOL: ("BOOL", "bool"),
    TType.BYTE: ("BYTE", "int"),
    TType.DOUBLE: ("DOUBLE", "float"),
    TType.I16: ("I16", "int"),
    TType.I32: ("I32", "int"),
    TType.I64: ("I64", "int"),
    TType.STRING: ("STRING", "str"),
    TType.BINARY: ("BINARY", "bytes"),
}


class TypeText:
    """A type as spec expression and annotation, and the classes that both use."""

    def __init__(self, spec: str, annotation: str, classes: Iterable[Any] = ()) -> None:
        self.spec, self.annotation, self.classes = spec, annotation, list(classes)


def type_text(ttype: int, sub: Any) -> TypeText:
    """Translate thriftpy2's (type code, sub type) notation."""
    if ttype in (TType.LIST, TType.SET):
        item = type_text(*split(sub))
        name = "list" if ttype == TType.LIST else "set"
        return TypeText(f"{name}_of({item.spec})", f"{name}[{item.annotation}]", item.classes)
    if ttype == TType.MAP:
        key, value = (type_text(*split(part)) for part in sub)
        return TypeText(
            f"map_of({key.spec}, {value.spec})",
            f"dict[{key.annotation}, {value.annotation}]",
            key.classes + value.classes,
        )
    if ttype == TType.STRUCT:
        return TypeText(f"struct_of({sub.__name__})", sub.__name__, [sub])
    if sub is not None:
        return TypeText(f"enum_of({sub.__name__})", f"{sub.__name__} | int", [sub])
    return TypeText(*SCALARS[ttype])


def split(notation: Any) -> tuple[int, Any]:
    """Type code and sub type of an item in a container's notation."""
    if isinstance(notation, tuple):
        return notation[0], notation[1]
    return notation, None


def fields_of(spec: dict[int, Any]) -> Iterator[tuple[int, str, TypeText, bool]]:
    """Id, name, type and requiredness of each field, by ascending id."""
    for number, entry in sorted(spec.items()):
        ttype, name, *rest = entry
        sub = rest[0] if len(rest) == 2 else None
        yield number, name, type_text(ttype, sub), rest[-1]


def extended(struct: Any) -> dict[int, Any]:
    """thriftpy2's notation of a struct with its fields of ``EXTENSION``."""
    added: dict[int, Any] = extensions().get(struct.__name__, {})
    return {**struct.thrift_spec, **added}


@functools.cache
def extensions() -> dict[str, dict[int, Any]]:
    """The fields of ``EXTENSION`` by struct."""
    loaded = thriftpy2.load(str(IDL / EXTENSION), module_name="extension_thrift")
    added = {struct.__name__: struct.thrift_spec for struct in structs_of(loaded)}
    for name, spec in added.items():
        if any(number < EXTENSION_FIELD_MIN or entry[-1] for number, entry in spec.items()):
            raise ValueError(f"a field of {name} is required or has a low id")
    return added


def safe(name: str) -> str:
    """A field name that is not a keyword."""
    return f"{name}_" if keyword.iskeyword(name) else name


def structs_of(module: ModuleType) -> list[Any]:
    """Structs, unions and exceptions of a file, in its order."""
    meta = module.__thrift_meta__
    kinds = ("structs", "unions", "exceptions")
    found = [item for kind in kinds for item in meta.get(kind, ())]
    order = list(vars(module))
    return sorted(found, key=lambda item: order.index(item.__name__))


def key_structs(modules: Iterable[ModuleType]) -> set[str]:
    """Names of the structs that must hash by value, with those inside them."""
    wanted: list[Any] = []

    def visit(notation: Any, hashed: bool) -> None:
        ttype, sub = split(notation)
        if ttype == TType.STRUCT and hashed:
            wanted.append(sub)
        elif ttype == TType.MAP:
            visit(sub[0], True)
            visit(sub[1], False)
        elif ttype in (TType.SET, TType.LIST):
            visit(sub, ttype == TType.SET)

    for module in modules:
        for struct in structs_of(module):
            for ttype, _, *rest in struct.thrift_spec.values():
                visit((ttype, rest[0] if len(rest) == 2 else None), False)
    names: set[str] = set()
    while wanted:
        struct = wanted.pop()
        names.add(struct.__name__)
        for ttype, _, *rest in struct.thrift_spec.values():
            if ttype == TType.STRUCT:
                wanted.append(rest[0])
    return names


def enum_lines(enum: Any, file: str) -> Iterator[str]:
    """An IntEnum."""
    yield f"class {enum.__name__}(IntEnum):"
    yield f'    """{file}: enum {enum.__name__}."""'
    yield ""
    for value, name in enum._VALUES_TO_NAMES.items():
        yield f"    {name} = {value}"
    yield ""
    yield ""


def default_text(text: TypeText, default: Any) -> str:
    """A default value as an expression."""
    if isinstance(default, list | dict | set):
        if default:
            raise ValueError(f"a filled container as default is not handled: {default}")
        return repr(default)  # msgspec gives each instance a copy
    if text.spec.startswith("enum_of"):
        return f"{text.classes[0].__name__}.{text.classes[0]._VALUES_TO_NAMES[default]}"
    if text.spec == "BOOL":
        return str(bool(default))
    return repr(default).replace("'", '"') if isinstance(default, str) else repr(default)


def struct_lines(struct: Any, file: str, frozen: bool) -> Iterator[str]:
    """A class of msgspec; keyword-only, since required and optional fields mix."""
    if frozen:  # msgspec allows it; mypy takes its classes for dataclasses, which do not
        yield f"class {struct.__name__}(  # type: ignore[misc]"
        yield "    ThriftStruct, frozen=True, kw_only=True"
        yield "):"
    else:
        yield f"class {struct.__name__}(ThriftStruct, kw_only=True):"
    yield f'    """{file}: {struct.__name__}."""'
    yield ""
    defaults = dict(struct.default_spec)
    for _, name, text, required in fields_of(extended(struct)):
        default = defaults.get(name)
        if default is not None:
            yield f"    {safe(name)}: {text.annotation} = {default_text(text, default)}"
        elif required and (struct.__name__, name) not in LENIENT:
            yield f"    {safe(name)}: {text.annotation}"
        else:
            yield f"    {safe(name)}: {text.annotation} | None = None"
    yield ""
    yield ""


def spec_lines(struct: Any) -> Iterator[str]:
    """The spec of a struct; a field with a default may be missing, so it is not required."""
    yield f"{struct.__name__}.SPEC = struct_spec("
    yield f"    {struct.__name__},"
    defaults = dict(struct.default_spec)
    for number, name, text, required in fields_of(extended(struct)):
        lenient = (struct.__name__, name) in LENIENT or defaults.get(name) is not None
        mark = ", required=True" if required and not lenient else ""
        yield f'    Field({number}, "{safe(name)}", {text.spec}{mark}),'
    yield ")"


def service_lines(service: Any, paths: dict[str, str]) -> Iterator[str]:
    """A service table with the inherited methods."""
    name = service.__name__
    yield ""
    yield f"{constant(name)} = ServiceSpec("
    yield f'    "{name}",'
    yield f'    "{paths.get(name, "")}",'
    yield "    {"
    for base in service.__mro__[1:]:
        if hasattr(base, "thrift_services"):
            yield f"        **{constant(base.__name__)}.methods,"
    for method in own_methods(service):
        yield f'        "{method}": MethodSpec('
        yield f'            "{method}",'
        arguments = [
            f'Field({number}, "{field_name}", {text.spec}),'
            for number, field_name, text, _ in fields_of(args_spec(service, method))
        ]
        yield f"            ({' '.join(arguments)}),"
        result, error = outcome(service, method)
        yield f"            {result},"
        yield f"            {error},"
        yield "        ),"
    yield "    },"
    yield ")"


def own_methods(service: Any) -> list[str]:
    """Methods a service adds to those it inherits."""
    inherited = {
        method
        for base in service.__mro__[1:]
        if hasattr(base, "thrift_services")
        for method in base.thrift_services
    }
    return [method for method in service.thrift_services if method not in inherited]


def args_spec(service: Any, method: str) -> dict[int, Any]:
    """thriftpy2's notation of a method's arguments."""
    spec: dict[int, Any] = getattr(service, f"{method}_args").thrift_spec
    return spec


def outcome(service: Any, method: str) -> tuple[str, str]:
    """Result type and declared exception as expressions."""
    spec = getattr(service, f"{method}_result").thrift_spec
    result = error = "None"
    for number, _, text, _ in fields_of(spec):
        if number == 0:
            result = text.spec
        elif number == 1:
            error = text.classes[0].__name__
        else:
            raise ValueError(f"{method} declares several exceptions; that is not handled")
    return result, error


def constant(name: str) -> str:
    """``TopicService`` to ``TOPIC_SERVICE``."""
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


def stem_of(module: ModuleType) -> str:
    """Stem of a loaded Thrift file; thriftpy2 requires the suffix ``_thrift`` for entries."""
    return module.__name__.removesuffix("_thrift")


def file_of(cls: Any) -> str:
    """Stem of the Thrift file that defines a class."""
    return str(cls.__module__).removesuffix("_thrift")


def used_classes(module: ModuleType) -> dict[str, list[str]]:
    """Classes of other files that this file uses, by file."""
    texts = [t for s in structs_of(module) for _, _, t, _ in fields_of(s.thrift_spec)]
    bases: list[Any] = []
    for service in module.__thrift_meta__.get("services", ()):
        bases += [base for base in service.__mro__[1:] if hasattr(base, "thrift_services")]
        for method in own_methods(service):
            texts += [t for _, _, t, _ in fields_of(args_spec(service, method))]
            result = getattr(service, f"{method}_result").thrift_spec
            texts += [t for _, _, t, _ in fields_of(result)]
    found: dict[str, set[str]] = {}
    for cls in [cls for text in texts for cls in text.classes]:
        found.setdefault(file_of(cls), set()).add(cls.__name__)
    for base in bases:
        found.setdefault(file_of(base), set()).add(constant(base.__name__))
    own = stem_of(module)
    return {name: sorted(items) for name, items in sorted(found.items()) if name != own}


def header(file: str) -> Iterator[str]:
    """First lines of every generated file."""
    yield f'"""Generated from idl/{file} by scripts/generate_thrift.py; do not edit."""'
    yield ""


def module_text(module: ModuleType, paths: dict[str, str], frozen: set[str]) -> str:
    """The module of a Thrift file; an entry without includes has the service table."""
    file = Path(module.__thrift_file__).name
    meta = module.__thrift_meta__
    body: list[str] = []
    for enum in meta.get("enums", ()):
        body += enum_lines(enum, file)
    for struct in structs_of(module):
        body += struct_lines(struct, file, struct.__name__ in frozen)
    for struct in structs_of(module):
        body += spec_lines(struct)
    for service in meta.get("services", ()):
        body += service_lines(service, paths)
    if stem_of(module) != module.__name__:
        body += table_lines([module], paths)
    return "\n".join([*header(file), *import_lines(module, "\n".join(body)), *body]) + "\n"


def import_lines(module: ModuleType, body: str) -> Iterator[str]:
    """Imports of the names in the body."""
    yield "from __future__ import annotations"
    yield ""
    if "IntEnum" in body:
        yield "from enum import IntEnum"
    yield ""
    for other, names in used_classes(module).items():
        yield f"from {PACKAGE}.{other} import ("
        yield from (f"    {name}," for name in names)
        yield ")"
    yield "from opentalos.wire.thrift.spec import ("
    marks = ["BINARY", "BOOL", "BYTE", "DOUBLE", "I16", "I32", "I64", "STRING"]
    yield from (f"    {n}," for n in marks if f" {n}" in body or f"({n}" in body)
    calls = ["Field", "MethodSpec", "ServiceSpec"]
    yield from (f"    {name}," for name in calls if f"{name}(" in body)
    if "ThriftStruct" in body:
        yield "    ThriftStruct,"
    helpers = ["enum_of", "list_of", "map_of", "set_of", "struct_of", "struct_spec"]
    yield from (f"    {name}," for name in helpers if f"{name}(" in body)
    yield ")"
    yield ""
    yield ""


def entry_text(file: str, modules: Iterable[ModuleType], paths: dict[str, str]) -> str:
    """The module of an entry that includes all others: the service table."""
    lines = [*header(file)]
    for module in modules:
        source = f"{PACKAGE}.{stem_of(module)}"
        lines += [f"from {source} import {constant(name)}" for name in served(module, paths)]
    lines[2:] = sorted(lines[2:])
    lines.append("from opentalos.wire.thrift.spec import ServiceSpec")
    return "\n".join([*lines, *table_lines(modules, paths)]) + "\n"


def served(module: ModuleType, paths: dict[str, str]) -> list[str]:
    """Services of a file that have a path."""
    names = [service.__name__ for service in module.__thrift_meta__.get("services", ())]
    return [name for name in names if name in paths]


def table_lines(modules: Iterable[ModuleType], paths: dict[str, str]) -> Iterator[str]:
    """All services that have a path, by name."""
    yield ""
    yield "SERVICES: dict[str, ServiceSpec] = {"
    for module in modules:
        yield from (f'    "{name}": {constant(name)},' for name in served(module, paths))
    yield "}"


def paths_of(entry: ModuleType) -> dict[str, str]:
    """Service to path: a constant with all of them, or one ``..._PATH`` each."""
    table: dict[str, str] | None = getattr(entry, "SERVICE_PATHS", None)
    if table is not None:
        return table
    names = [service.__name__ for service in entry.__thrift_meta__["services"]]
    paths = {name: getattr(entry, f"{constant(name)}_PATH", None) for name in names}
    return {name: path for name, path in paths.items() if path is not None}


def generate() -> dict[str, str]:
    """All files of the output directory, as text by file name."""
    files = {"__init__.py": '"""Structs and services generated from idl/."""\n'}
    for entry in ENTRIES:
        loaded = thriftpy2.load(str(IDL / entry), module_name=f"{Path(entry).stem}_thrift")
        included, paths = loaded.__thrift_meta__["includes"], paths_of(loaded)
        modules = included or [loaded]
        frozen = key_structs(modules)
        for module in modules:
            files[f"{stem_of(module)}.py"] = module_text(module, paths, frozen)
        if included:
            files[f"{Path(entry).stem}.py"] = entry_text(entry, modules, paths)
    return files


def main() -> int:
    """Write the files, or compare them with the existing ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the output is not current")
    check = parser.parse_args().check
    files = generate()
    present = {path.name: path.read_text() for path in OUTPUT.glob("*.py")}
    if present == files:
        return 0
    if check:
        changed = {name for name in files | present if files.get(name) != present.get(name)}
        print(f"stale: {', '.join(sorted(changed))}; run make generate", file=sys.stderr)
        return 1
    OUTPUT.mkdir(exist_ok=True)
    for name in present.keys() - files.keys():
        (OUTPUT / name).unlink()
    for name, text in files.items():
        (OUTPUT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
