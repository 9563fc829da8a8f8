"""How a table's replay started, stored below HOME/side for its later runs.

A replay that started with a scan reads the stream from the offsets of a mark that is older than the
scan. This record is written when the scan's rows are durable: after a crash before it the scan is
repeated, after it the table is never scanned again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from opentalos.model.errors import ConfigError, TableNotExist
from opentalos.pipelines.lake.durable_files import write_json
from opentalos.sdk.errors import ChangeMissing

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """The start of a replay.

    ``table_uuid``: changes when the table is dropped and created again; ``offsets``: where the
    stream is read from, by partition; None: there was no scan; ``enabling``: the number of the
    stream's enabling; None: it was unknown.
    """

    table_uuid: str
    topic: str
    offsets: Mapping[int, int] | None
    enabling: int | None = None

    @property
    def position(self) -> str:
        """The option ``startingPosition`` of the stream after a scan."""
        return json.dumps({self.topic: self.offsets})

    def check(self, table: str, now: "ReplayStart") -> None:
        """Compare with the start that a replay would have now.

        Raises: TableNotExist: the table was dropped, and another one has its name. ChangeMissing:
                the stream was disabled meanwhile. ConfigError: the topic differs.
        """
        if now.topic != self.topic:
            raise ConfigError(
                f"the state of {table} is of the stream into {self.topic}, not {now.topic}; "
                "choose another --home"
            )
        if now.table_uuid != self.table_uuid:
            raise TableNotExist(
                f"the replayed table {table} was dropped, and another one has its name; "
                "start again with another --home"
            )
        if None not in (self.enabling, now.enabling) and now.enabling != self.enabling:
            raise ChangeMissing(
                f"the stream of {table} into {self.topic} was disabled or stopped meanwhile, so "
                "changes are missing; start again with bootstrap=scan and another --home"
            )


def stored(home: Path, table: str) -> ReplayStart | None:
    """How the replay below ``home`` started; None: never. Raises: ConfigError: damaged file."""
    path = _path(home, table)
    try:
        found = json.loads(path.read_text())
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']!r} is not supported")
        offsets = found["offsets"]
        if offsets is not None:
            offsets = {int(partition): int(offset) for partition, offset in offsets.items()}
        return ReplayStart(
            str(found["table_uuid"]), str(found["topic"]), offsets, found.get("enabling")
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is damaged: {error}") from error


def store(home: Path, table: str, start: ReplayStart) -> None:
    """Store it; on return it is durable. Raises: OSError."""
    path = _path(home, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"version": VERSION, **asdict(start)})


def _path(home: Path, table: str) -> Path:
    return home / "side" / "sds-replay" / f"{table}.json"
