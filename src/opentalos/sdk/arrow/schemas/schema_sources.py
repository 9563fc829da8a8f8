"""Where schemas come from: given, in files, in a folder, or looked up by a function."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from opentalos.model.errors import ConfigError

SCHEMAS_MAX: Final = 1_000  # of one call
SCHEMA_BYTES_MAX: Final = 1 << 20

Schema = str | bytes  # the text of an Avro schema; a compiled set of Protobuf descriptors
SchemaSource = Schema | Path | Callable[[str], Schema]  # itself, its file, or by the fingerprint
Schemas = Mapping[str | None, SchemaSource] | Path  # by fingerprint; a folder of files


def resolved(schemas: Schemas, suffix: str) -> dict[str | None, bytes]:
    """The schema of each fingerprint; None is for messages without one.

    Args:   schemas: by fingerprint, or a folder: the file ``V1.avsc`` has the schema of ``V1``;
            suffix: of the files in a folder.
    Raises: ConfigError: a file cannot be read, a schema is missing or too large, or there are more
            than ``SCHEMAS_MAX``.
    """
    named = _of_folder(schemas, suffix) if isinstance(schemas, Path) else schemas
    if len(named) > SCHEMAS_MAX:
        raise ConfigError(f"{len(named)} schemas are given, at most {SCHEMAS_MAX} are used")
    return {name: _schema(name, source) for name, source in named.items()}


def shown(name: str | None) -> str:
    """How texts name a fingerprint."""
    return "of messages without fingerprint" if name is None else repr(name)


def _of_folder(folder: Path, suffix: str) -> dict[str | None, SchemaSource]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == suffix)
    except OSError as error:
        raise ConfigError(
            f"cannot read the folder of schemas {folder}: {error.strerror}"
        ) from error
    if not found:
        raise ConfigError(f"the folder of schemas {folder} has no file {suffix}")
    return {path.stem: path for path in found}


def _schema(name: str | None, source: SchemaSource) -> bytes:
    if isinstance(source, Path):
        found: object = _content(name, source)
    else:
        found = source(name or "") if callable(source) else source
    content = found.encode() if isinstance(found, str) else found
    if not isinstance(content, bytes) or not content:
        raise ConfigError(f"there is no schema {shown(name)}: {found!r:.60}")
    if len(content) > SCHEMA_BYTES_MAX:
        raise ConfigError(
            f"the schema {shown(name)} has {len(content)} bytes, at most {SCHEMA_BYTES_MAX}"
        )
    return content


def _content(name: str | None, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the schema {shown(name)}: {path}: {error.strerror}"
        ) from error
