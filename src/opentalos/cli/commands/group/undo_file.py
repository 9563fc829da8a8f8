"""Undo files of ``talos group reset``: the checkpoints that a reset replaced."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from opentalos.cli.input.json_document import read_document
from opentalos.model.errors import BadRequest, ConfigError

_VERSION: Final = 1
_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Checkpoints of a group by partition; -1: none."""

    topic: str  # resource name, which differs for a recreated topic
    group: str
    offsets: Mapping[int, int]


def default_path(topic: str, group: str, now: datetime) -> Path:
    """A new file name in the current directory."""
    plain = f"{topic}-{group}".replace("/", "_")
    return Path(f"talos-undo-{plain}-{now:%Y%m%dT%H%M%S.%f}Z.json")


def write_new(path: Path, saved: Checkpoints) -> None:
    """Create the file and sync it. Raises: ConfigError, also if the file exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_text(saved))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise ConfigError(f"{path} already exists; pass another --undo-file") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigError(f"cannot write the undo file {path}: {error.strerror}") from error


def read(path: Path) -> Checkpoints:
    """Read a file of ``write_new``. Raises: ConfigError: missing or invalid."""
    return read_document(path, "an undo file", _BYTES_MAX, _parse)


def _text(saved: Checkpoints) -> str:
    offsets = {str(partition): offset for partition, offset in sorted(saved.offsets.items())}
    document = {
        "version": _VERSION,
        "topic": saved.topic,
        "group": saved.group,
        "checkpoints": offsets,
    }
    return json.dumps(document, indent=2) + "\n"


def _parse(document: Any) -> Checkpoints:
    if document["version"] != _VERSION:
        raise BadRequest(f"version {document['version']!r}, expected {_VERSION}")
    offsets = {int(partition): offset for partition, offset in document["checkpoints"].items()}
    if not offsets or not all(type(offset) is int and offset >= -1 for offset in offsets.values()):
        raise BadRequest("checkpoints must map partitions to offsets")
    topic, group = document["topic"], document["group"]
    if not isinstance(topic, str) or not isinstance(group, str):
        raise BadRequest("topic and group must be strings")
    return Checkpoints(topic, group, offsets)
