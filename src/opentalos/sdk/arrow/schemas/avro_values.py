"""Decodes Avro values: one encoded value without the header of a file, as producers send them."""

import json
from functools import cached_property
from io import BytesIO
from typing import Any, Final

from opentalos.model.errors import ConfigError
from opentalos.sdk.arrow.schemas.avro_types import LOGICAL_TYPES, AvroType, AvroTypes
from opentalos.sdk.arrow.schemas.decoded_column import VALUE_BYTES_MAX, decoded_tables
from opentalos.sdk.arrow.schemas.schema_sources import Schemas, resolved, shown

MISSING: Final = "Avro values need fastavro: pip install 'opentalos[avro]'"
FILE_SUFFIX: Final = ".avsc"
# What fastavro raises for bytes that are no value of a schema.
_DAMAGED: Final = (EOFError, ValueError, TypeError, LookupError, ArithmeticError)


class AvroDecoder:
    """Decodes values of one schema. It can be pickled.

    Args:   name: the fingerprint; schema: its JSON.
    Raises: ConfigError: the schema is invalid or has no Arrow type; ImportError: fastavro is not
            installed.
    """

    def __init__(self, name: str | None, schema: bytes) -> None:
        self._name, self._schema = name, schema
        self._compiled  # noqa: B018 - an invalid schema is refused now

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._name, self._schema)

    @property
    def type(self) -> Any:
        """The Arrow type of a decoded value."""
        return self._compiled[1].arrow

    def decode(self, value: bytes) -> Any:
        """The value for ``pyarrow.array``. Raises: ValueError: it is damaged."""
        from fastavro import schemaless_reader

        parsed, kind = self._compiled
        data = BytesIO(value)
        try:
            found = schemaless_reader(data, parsed, None)
        except _DAMAGED as error:
            why = str(error) or "it ends too early"
            raise ValueError(f"not a value of its Avro schema: {why}") from error
        rest = len(value) - data.tell()
        if rest:
            raise ValueError(f"not a value of its Avro schema: {rest} bytes follow it")
        return found if kind.convert is None else kind.convert(found)

    @cached_property
    def _compiled(self) -> tuple[Any, AvroType]:
        try:
            from fastavro import parse_schema
            from fastavro.schema import SchemaParseException, UnknownType
        except ImportError as error:
            raise ImportError(MISSING) from error
        what = f"the Avro schema {shown(self._name)}"
        try:
            parsed = parse_schema(_without_others(json.loads(self._schema)))
            return parsed, AvroTypes().of(parsed)
        except ConfigError as error:
            raise ConfigError(f"{what}: {error}") from error
        except RecursionError as error:
            raise ConfigError(f"{what} is nested too deeply") from error
        except (SchemaParseException, UnknownType, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{what} is invalid: {error!s:.200}") from error


def avro_decoders(schemas: Schemas) -> dict[str | None, AvroDecoder]:
    """The decoder of each fingerprint. Raises: as ``AvroDecoder``."""
    found = resolved(schemas, FILE_SUFFIX)
    return {name: AvroDecoder(name, schema) for name, schema in found.items()}


def decode_avro(
    table: Any, schemas: Schemas, *, bytes_max: int = VALUE_BYTES_MAX
) -> dict[str | None, Any]:
    """The records of each schema fingerprint, with their Avro value decoded.

    Each ``pyarrow.Table`` has ``partition``, ``offset``, ``decoded`` and ``decode_error``, in the
    order of the records. A value that cannot be decoded is null, and ``decode_error`` says why.

    Args:   table: with ``partition``, ``offset``, ``data`` and ``schema_fingerprint``; schemas: by
            fingerprint the JSON of a schema, the path of its file, or a function that returns it;
            or a folder with a file ``FINGERPRINT.avsc`` for each; bytes_max: of a value.
    Raises: BadRequest: a fingerprint has no schema; ConfigError: a schema is invalid; ImportError:
            the extra ``avro`` is not installed.
    """
    return decoded_tables(table, avro_decoders(schemas), bytes_max)


def _without_others(schema: Any) -> Any:
    """The schema without logical types that have no Arrow type here."""
    if isinstance(schema, list):
        return [_without_others(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_others(value)
        for key, value in schema.items()
        if key != "logicalType" or value in LOGICAL_TYPES
    }
