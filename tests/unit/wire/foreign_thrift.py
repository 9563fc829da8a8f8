"""Other people's Thrift codecs, driven by our specs: Apache ``thrift`` and ``thriftpy2``.

``samples`` makes values of a type; ``APACHE`` and ``THRIFTPY`` encode and decode whole messages.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import thriftpy2
from hypothesis import strategies as st
from thrift.protocol import TBinaryProtocol, TCompactProtocol, TJSONProtocol
from thrift.transport import TTransport
from thriftpy2.protocol import TApacheJSONProtocol
from thriftpy2.protocol import TBinaryProtocol as PyBinaryProtocol
from thriftpy2.protocol import TCompactProtocol as PyCompactProtocol
from thriftpy2.transport import TMemoryBuffer as UntypedMemoryBuffer

from opentalos.wire.thrift import ThriftProtocol
from opentalos.wire.thrift.spec import StructSpec, ThriftType, TType

TMemoryBuffer: Any = UntypedMemoryBuffer  # thriftpy2 has annotations on some functions only
EXTENSION_FIELD_MIN = 1001  # see idl/opentalos.thrift
_ROOT = Path(__file__).resolve().parents[3]
_TALOS = thriftpy2.load(str(_ROOT / "idl" / "talos.thrift"), module_name="foreign_thrift")
_PY_MODULES = {module.__name__: module for module in _TALOS.__thrift_meta__["includes"]}
_RANGES = {TType.BYTE: 8, TType.I16: 16, TType.I32: 32, TType.I64: 64}
_TEXT = st.text(st.characters(codec="utf-8"), max_size=6)


def samples(type_: ThriftType) -> st.SearchStrategy[Any]:
    """Values of a type, as our codec decodes them."""
    if type_.enum:
        return st.sampled_from(list(type_.enum.values()))
    if type_.ttype in _RANGES:
        limit = 1 << (_RANGES[type_.ttype] - 1)
        return st.integers(-limit, limit - 1)
    match type_.ttype:
        case TType.BOOL:
            return st.booleans()
        case TType.DOUBLE:
            # Apache's Python library writes an infinite number as bare "inf", which is no JSON.
            return st.floats(allow_nan=False, allow_infinity=False)
        case TType.STRING:
            return _TEXT if type_.text else st.binary(max_size=20)
        case TType.STRUCT:
            assert type_.struct is not None
            return struct_samples(type_.struct.SPEC)
        case TType.MAP:
            assert type_.key is not None
            assert type_.item is not None
            return st.dictionaries(samples(type_.key), samples(type_.item), max_size=3)
        case TType.SET:
            assert type_.item is not None
            return st.sets(samples(type_.item), max_size=3)
        case _:
            assert type_.item is not None
            return st.lists(samples(type_.item), max_size=3)


def struct_samples(spec: StructSpec) -> st.SearchStrategy[Any]:
    """Structs of a spec; optional fields without a default may be None."""
    parts: dict[str, st.SearchStrategy[Any]] = {}
    for field in spec.fields:
        if field.id >= EXTENSION_FIELD_MIN:
            continue  # a foreign library does not know it
        values = samples(field.type)
        if not field.required and spec.make is not dict and _default(spec, field.name) is None:
            values = st.none() | values
        parts[field.name] = values
    return st.fixed_dictionaries(parts).map(lambda values: spec.make(**values))


def _default(spec: StructSpec, name: str) -> Any:
    """Default of a field of a generated class."""
    (entry,) = (each for each in msgspec.structs.fields(spec.make) if each.name == name)
    has_factory = entry.default_factory is not msgspec.NODEFAULT
    return entry.default_factory if has_factory else entry.default


Make = Callable[[StructSpec, dict[str, Any]], Any]


def convert(type_: ThriftType, value: Any, make: Make) -> Any:
    """Copy a value, with the structs made by ``make``; None stays None."""
    if value is None:
        return None
    if type_.struct is not None:
        spec = type_.struct.SPEC
        return make(spec, field_values(spec, value, make))
    if type_.ttype == TType.MAP:
        assert type_.key is not None
        assert type_.item is not None
        key, item = type_.key, type_.item
        return {convert(key, k, make): convert(item, v, make) for k, v in value.items()}
    if type_.ttype in (TType.LIST, TType.SET):
        assert type_.item is not None
        items = [convert(type_.item, item, make) for item in value]
        return set(items) if type_.ttype == TType.SET else items
    if type_.enum is not None:
        return type_.enum.get(value, value)
    return value


def field_values(spec: StructSpec, value: Any, make: Make) -> dict[str, Any]:
    """Converted values of the fields that are set."""
    given = value if isinstance(value, dict) else None
    found = {}
    for field in spec.fields:
        item = given.get(field.name) if given is not None else getattr(value, field.name, None)
        found[field.name] = convert(field.type, item, make)
    return {name: item for name, item in found.items() if item is not None}


def _ours(spec: StructSpec, values: dict[str, Any]) -> Any:
    return spec.make(**values)


class ForeignMessage(NamedTuple):
    """A message as another library read it, with our structs."""

    name: str
    kind: int
    seqid: int
    values: dict[str, Any]


class Apache:
    """Apache ``thrift`` with classes made from our specs."""

    name = "apache"
    _PROTOCOLS: ClassVar[dict[ThriftProtocol, Any]] = {
        ThriftProtocol.COMPACT: TCompactProtocol.TCompactProtocol,
        ThriftProtocol.BINARY: lambda transport: TBinaryProtocol.TBinaryProtocol(
            transport, strictRead=True, strictWrite=True
        ),
        ThriftProtocol.JSON: TJSONProtocol.TJSONProtocol,
    }

    def __init__(self) -> None:
        self._classes: dict[StructSpec, Any] = {}

    def cls(self, spec: StructSpec) -> Any:
        """A class with Apache's ``thrift_spec``."""
        if spec not in self._classes:
            fields: list[Any] = [None] * (max((f.id for f in spec.fields), default=-1) + 1)
            for field in spec.fields:
                fields[field.id] = (
                    field.id,
                    int(field.type.ttype),
                    field.name,
                    self._args(field.type),
                    None,
                )
            made = type(spec.name, (_ApacheStruct,), {"thrift_spec": tuple(fields)})
            self._classes[spec] = made
        return self._classes[spec]

    def _args(self, type_: ThriftType) -> Any:
        if type_.struct is not None:
            cls = self.cls(type_.struct.SPEC)
            return [cls, cls.thrift_spec]
        if type_.ttype == TType.STRING:
            return "UTF8" if type_.text else "BINARY"
        if type_.ttype == TType.MAP:
            assert type_.key is not None
            assert type_.item is not None
            key, item = type_.key, type_.item
            return (int(key.ttype), self._args(key), int(item.ttype), self._args(item), False)
        if type_.item is not None:
            return (int(type_.item.ttype), self._args(type_.item), False)
        return None

    def encode(self, protocol: ThriftProtocol, spec: StructSpec, message: ForeignMessage) -> bytes:
        """A whole message."""
        transport = TTransport.TMemoryBuffer()
        out = self._PROTOCOLS[protocol](transport)
        values = field_values(spec, message.values, lambda s, v: self.cls(s)(**v))
        root = self.cls(spec)(**values)
        out.writeMessageBegin(message.name, message.kind, message.seqid)
        out.writeStruct(root, root.thrift_spec)
        out.writeMessageEnd()
        data: bytes = transport.getvalue()
        return data

    def decode(self, protocol: ThriftProtocol, spec: StructSpec, data: bytes) -> ForeignMessage:
        """Read a whole message."""
        source = self._PROTOCOLS[protocol](TTransport.TMemoryBuffer(data))
        name, kind, seqid = source.readMessageBegin()
        root = self.cls(spec)()
        source.readStruct(root, root.thrift_spec)
        source.readMessageEnd()
        return ForeignMessage(name, kind, seqid, field_values(spec, root, _ours))


class _ApacheStruct:
    thrift_spec: tuple[Any, ...] = ()

    def __init__(self, **values: Any) -> None:
        for entry in self.thrift_spec:
            if entry:
                setattr(self, entry[2], values.get(entry[2]))

    def __hash__(self) -> int:
        return hash(repr(sorted(vars(self).items())))

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)

    def write(self, out: Any) -> None:
        out.writeStruct(self, self.thrift_spec)

    def read(self, source: Any) -> None:
        source.readStruct(self, self.thrift_spec)


def _same(found: Any, spec: StructSpec) -> bool:
    """Whether a method's struct is the one meant: two services have a listTopics."""
    first = spec.fields[0].type.struct if spec.fields else None
    return first is None or found.thrift_spec[spec.fields[0].id][2].__name__ == first.__name__


class ThriftPy:
    """``thriftpy2`` with the classes of its own parser."""

    name = "thriftpy2"
    _PROTOCOLS: ClassVar[dict[ThriftProtocol, Any]] = {
        ThriftProtocol.COMPACT: PyCompactProtocol,
        ThriftProtocol.BINARY: PyBinaryProtocol,
        ThriftProtocol.JSON: TApacheJSONProtocol,
    }

    def cls(self, spec: StructSpec) -> Any:
        """The parsed class, or the one of a method's arguments or result."""
        for module in _PY_MODULES.values():
            if hasattr(module, spec.name):
                return getattr(module, spec.name)
            for service in module.__thrift_meta__.get("services", ()):
                found = getattr(service, spec.name, None)
                if found and len(found.thrift_spec) == len(spec.fields) and _same(found, spec):
                    return found
        raise LookupError(spec.name)

    def encode(self, protocol: ThriftProtocol, spec: StructSpec, message: ForeignMessage) -> bytes:
        """A whole message."""
        transport = TMemoryBuffer()
        out = self._PROTOCOLS[protocol](transport)
        values = field_values(spec, message.values, lambda s, v: self.cls(s)(**v))
        if "error" in values:
            values["e"] = values.pop("error")
        out.write_message_begin(message.name, message.kind, message.seqid)
        out.write_struct(self.cls(spec)(**values))
        out.write_message_end()
        data: bytes = transport.getvalue()
        return data

    def decode(self, protocol: ThriftProtocol, spec: StructSpec, data: bytes) -> ForeignMessage:
        """Read a whole message."""
        source = self._PROTOCOLS[protocol](TMemoryBuffer(data))
        name, kind, seqid = source.read_message_begin()
        root = self.cls(spec)()
        source.read_struct(root)
        source.read_message_end()
        if hasattr(root, "e"):
            root.error = root.e
        return ForeignMessage(name, kind, seqid, field_values(spec, root, _ours))


APACHE, THRIFTPY = Apache(), ThriftPy()
