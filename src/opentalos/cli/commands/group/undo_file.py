"""The checkpoints of a group as a file: what a reset replaced, so that another takes it back."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from opentalos.model.errors import BadRequest, ConfigError

_VERSION: Final = 1
_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Last processed offsets of a group by partition; -1: none."""

    topic: str  # resource name, so that a topic made anew is not taken for this one
    group: str
    offsets: Mapping[int, int]


def default_path(topic: str, group: str, now: datetime) -> Path:
    """A new name in the current folder."""
    plain = topic.replace("/", "_")
    return Path(f"talos-undo-{plain}-{group}-{now:%Y%m%dT%H%M%S.%f}Z.json")


def write_new(path: Path, saved: Checkpoints) -> None:
    """Make the file, durable; one that exists is left alone. Raises: ConfigError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_text(saved))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise ConfigError(f"{path} exists already; name another undo file") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigError(f"cannot write the undo file {path}: {error.strerror}") from error


def read(path: Path) -> Checkpoints:
    """What ``write_new`` wrote. Raises: ConfigError: unreadable, or no such file."""
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_MAX + 1)
        if len(text) > _BYTES_MAX:
            raise BadRequest(f"it is larger than {_BYTES_MAX} bytes")
        return _parse(json.loads(text))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, BadRequest) as error:
        raise ConfigError(f"{path} has no checkpoints: {error}") from error


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
        raise BadRequest(f"its version is {document['version']!r}, not {_VERSION}")
    offsets = {int(partition): offset for partition, offset in document["checkpoints"].items()}
    if not offsets or not all(type(one) is int and one >= -1 for one in offsets.values()):
        raise BadRequest("checkpoints must be offsets by partition")
    topic, group = document["topic"], document["group"]
    if not isinstance(topic, str) or not isinstance(group, str):
        raise BadRequest("topic and group must be texts")
    return Checkpoints(topic, group, offsets)
