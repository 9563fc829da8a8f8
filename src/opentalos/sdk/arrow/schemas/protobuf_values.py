"""Decodes Protobuf values by the descriptors that ``protoc`` writes."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from opentalos.model.errors import ConfigError
from opentalos.sdk.arrow.schemas.decoded_column import VALUE_BYTES_MAX, decoded_tables
from opentalos.sdk.arrow.schemas.protobuf_types import ProtobufType, message_type
from opentalos.sdk.arrow.schemas.schema_sources import Schemas, resolved, shown

MISSING: Final = "Protobuf values need protobuf: pip install 'opentalos[protobuf]'"
FILE_SUFFIX: Final = ".desc"

MessageNames = str | Mapping[str | None, str]  # of all schemas, or by fingerprint


class ProtobufDecoder:
    """Decodes values of one message type. It can be pickled.

    Args:   name: the fingerprint; descriptors: a serialized ``FileDescriptorSet`` with all imports;
            message: the full name of the message type.
    Raises: ConfigError: the descriptors are invalid or lack the message type, or it has no Arrow
            type; ImportError: protobuf is not installed.
    """

    def __init__(self, name: str | None, descriptors: bytes, message: str) -> None:
        self._name, self._descriptors, self._message = name, descriptors, message
        self._compiled  # noqa: B018 - an invalid schema is refused now

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._name, self._descriptors, self._message)

    @property
    def type(self) -> Any:
        """The Arrow type of a decoded value."""
        return self._compiled[1].arrow

    def decode(self, value: bytes) -> Any:
        """The value for ``pyarrow.array``. Raises: ValueError: it is damaged."""
        from google.protobuf.message import DecodeError

        message_class, kind = self._compiled
        try:
            message = message_class.FromString(value)
        except DecodeError as error:
            raise ValueError(f"not a message {self._message}: {error}") from error
        return message if kind.read is None else kind.read(message)

    @cached_property
    def _compiled(self) -> tuple[Any, ProtobufType]:
        try:
            from google.protobuf import descriptor_pool, message_factory
            from google.protobuf.descriptor_pb2 import FileDescriptorSet
            from google.protobuf.message import DecodeError
        except ImportError as error:
            raise ImportError(MISSING) from error
        what = f"the Protobuf descriptors {shown(self._name)}"
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in FileDescriptorSet.FromString(self._descriptors).file:
                pool.AddSerializedFile(file.SerializeToString())
            found = pool.FindMessageTypeByName(self._message)
        except KeyError as error:
            raise ConfigError(f"{what} have no message {self._message}") from error
        except (DecodeError, TypeError) as error:
            raise ConfigError(
                f"{what} are invalid: {error}; write them with protoc --include_imports "
                "--descriptor_set_out"
            ) from error
        try:
            return message_factory.GetMessageClass(found), message_type(found)
        except ConfigError as error:
            raise ConfigError(f"{what}: {error}") from error


def protobuf_decoders(schemas: Schemas, message: MessageNames) -> dict[str | None, ProtobufDecoder]:
    """The decoder of each fingerprint. Raises: as ``ProtobufDecoder``."""
    found = {}
    for name, descriptors in resolved(schemas, FILE_SUFFIX).items():
        full_name = message if isinstance(message, str) else message.get(name)
        if not full_name:
            raise ConfigError(f"the message type of the schema {shown(name)} is missing")
        found[name] = ProtobufDecoder(name, descriptors, full_name)
    return found


def decode_protobuf(
    table: Any, schemas: Schemas, message: MessageNames, *, bytes_max: int = VALUE_BYTES_MAX
) -> dict[str | None, Any]:
    """The records of each schema fingerprint, with their Protobuf value decoded.

    Each ``pyarrow.Table`` has ``partition``, ``offset``, ``decoded`` and ``decode_error``, in the
    order of the records. A value that cannot be decoded is null, and ``decode_error`` says why.

    Args:   table: with ``partition``, ``offset``, ``data`` and ``schema_fingerprint``; schemas: by
            fingerprint the descriptors that ``protoc --include_imports --descriptor_set_out``
            writes, the path of the file, or a function that returns them; or a folder with a file
            ``FINGERPRINT.desc`` for each; message: full name of the message type, or a name for
            each fingerprint; bytes_max: of a value.
    Raises: BadRequest: a fingerprint has no schema; ConfigError: descriptors are invalid;
            ImportError: the extra ``protobuf`` is not installed.
    """
    return decoded_tables(table, protobuf_decoders(schemas, message), bytes_max)
