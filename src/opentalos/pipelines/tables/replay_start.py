"""How a table's replay began, kept below HOME/side for every later run of it.

A replay that began with a scan reads the stream from the offsets of a mark that is older than the
scan. This is written when the scan's rows are durable: a crash before it begins the scan anew,
after it the table is never scanned again.
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
class Beginning:
    """``table_uuid``: another one once the table was dropped and made anew; ``offsets``: where the
    stream is read from, by partition; None: there was no scan; ``enabling``: of the stream; None:
    it was not known."""

    table_uuid: str
    topic: str
    offsets: Mapping[int, int] | None
    enabling: int | None = None

    @property
    def position(self) -> str:
        """The option ``startingPosition`` of the stream behind a scan."""
        return json.dumps({self.topic: self.offsets})

    def check(self, table: str, now: "Beginning") -> None:
        """Compare with what a beginning would be now.

        Raises: TableNotExist: the table was dropped, and another one has its name. ChangeMissing:
                the stream was off in between. ConfigError: the topic is another one.
        """
        if now.topic != self.topic:
            raise ConfigError(
                f"the state of {table} was made of the stream into {self.topic}, not {now.topic}; "
                "give another --home"
            )
        if now.table_uuid != self.table_uuid:
            raise TableNotExist(
                f"the table {table} that was followed does not exist; another one has its name: "
                "begin anew with another --home"
            )
        if None not in (self.enabling, now.enabling) and now.enabling != self.enabling:
            raise ChangeMissing(
                f"the stream of {table} into {self.topic} was off or has stopped in between: "
                "changes are missing; begin anew, with bootstrap=scan and another --home"
            )


def stored(home: Path, table: str) -> Beginning | None:
    """How the replay below ``home`` began. Raises: ConfigError: the file is unusable."""
    path = _path(home, table)
    try:
        found = json.loads(path.read_text())
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']!r}")
        offsets = found["offsets"]
        if offsets is not None:
            offsets = {int(partition): int(offset) for partition, offset in offsets.items()}
        return Beginning(
            str(found["table_uuid"]), str(found["topic"]), offsets, found.get("enabling")
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is unusable: {error}") from error


def store(home: Path, table: str, beginning: Beginning) -> None:
    """Keep it; on return it is durable. Raises: OSError."""
    path = _path(home, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"version": VERSION, **asdict(beginning)})


def _path(home: Path, table: str) -> Path:
    return home / "side" / "sds-replay" / f"{table}.json"
