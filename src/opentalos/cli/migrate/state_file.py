"""The state file of a migration: what its next run must know, replaced atomically.

It holds which topics belong together, the offset maps, and the positions that were set. What is
copied is read from the target, so a file that is some seconds old loses nothing.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from opentalos.cli.input.json_document import read_document
from opentalos.cli.migrate.offset_map import OffsetMap, Run
from opentalos.model.errors import BadRequest, ConfigError

_VERSION: Final = 1
_BYTES_MAX: Final = 64 << 20


@dataclass(slots=True)
class CopiedPartition:
    """One partition; ``copied``: the target's end when the file was written, or less."""

    map: OffsetMap = field(default_factory=OffsetMap)
    copied: int = 0


@dataclass(slots=True)
class CopiedTopic:
    """One topic, by the resource names of both sides."""

    source: str
    target: str
    partitions: dict[int, CopiedPartition] = field(default_factory=dict)
    positions: dict[str, dict[int, int]] = field(default_factory=dict)  # set, by group

    def partition(self, number: int) -> CopiedPartition:
        """The partition of this number; made on first use."""
        return self.partitions.setdefault(number, CopiedPartition())


@dataclass(slots=True)
class State:
    """All topics of a migration, by name."""

    topics: dict[str, CopiedTopic] = field(default_factory=dict)


class StateFile:
    """The file, which one migration at a time uses. Raises: ConfigError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.state = _read(path)

    def save(self) -> None:
        """Replace the file; on return it survives a power loss."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(_document(self.state), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ConfigError(
                f"cannot write the state file {self._path}: {error.strerror or error}"
            ) from error


@contextmanager
def only_user(path: Path) -> Iterator[None]:
    """Lock the state file's name. Raises: ConfigError: another migration has it."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        file = lock.open("w")
    except OSError as error:
        raise ConfigError(f"cannot write {lock}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"another migration uses {path}; pass another --state") from error
        yield


def _document(state: State) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "topics": {
            name: {
                "source": topic.source,
                "target": topic.target,
                "partitions": {
                    str(number): {"runs": partition.map.runs, "copied": partition.copied}
                    for number, partition in sorted(topic.partitions.items())
                },
                "positions": topic.positions,
            }
            for name, topic in sorted(state.topics.items())
        },
    }


def _read(path: Path) -> State:
    if not path.exists():
        return State()
    return read_document(path, "the state of a migration", _BYTES_MAX, _parse)


def _parse(document: Any) -> State:
    if document["version"] != _VERSION:
        raise BadRequest(f"version {document['version']!r}, expected {_VERSION}")
    return State({name: _topic(topic) for name, topic in document["topics"].items()})


def _topic(document: Any) -> CopiedTopic:
    partitions = {
        int(number): CopiedPartition(
            OffsetMap(tuple(Run(int(source), int(target)) for source, target in found["runs"])),
            int(found["copied"]),
        )
        for number, found in document["partitions"].items()
    }
    positions = {
        group: {int(number): int(offset) for number, offset in offsets.items()}
        for group, offsets in document["positions"].items()
    }
    return CopiedTopic(str(document["source"]), str(document["target"]), partitions, positions)
