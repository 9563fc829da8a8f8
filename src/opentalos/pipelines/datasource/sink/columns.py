"""The columns of a write: their names and types, and the rules for their values."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types
from pyspark.sql.types import StructType

from opentalos.model.errors import BadRequest, ConfigError

_TEXT: Final = (types.StringType,)
_NUMBER: Final = (types.ByteType, types.ShortType, types.IntegerType)
_WRITTEN: Final[dict[str, tuple[type[types.DataType], ...]]] = {
    "value": (types.BinaryType, types.StringType),
    "key": _TEXT,
    "type": _NUMBER,
    "tag": _TEXT,
    "create_time": (types.TimestampType,),
    "sequence_number": _TEXT,
    "schema_fingerprint": _TEXT,
    "topic": _TEXT,
    "partition": _NUMBER,
}
_NAMES: Final = {"value": "data", "key": "partition_key", "type": "message_type"}  # of the SDK
_CONTENTS: Final = ("value", "key", "tag")  # they make up a row's size
_ROUTES: Final = frozenset(("topic", "partition"))  # the destination of a row; not stored
_SET_BY_THE_LOG: Final = frozenset(("offset", "append_time"))


class WriteColumns:
    """The columns of a DataFrame that is written.

    Args:   ignore_metadata: columns that a read gives and this write cannot take are not stored:
            offset and append_time, and topic if the option topic is given.
    Raises: ConfigError: a column is missing, unknown, duplicated or of another type.
    """

    def __init__(
        self, schema: StructType, *, topic_option: bool, ignore_metadata: bool = False
    ) -> None:
        self._ignored = _metadata(topic_option) if ignore_metadata else frozenset()
        fields = [field for field in schema.fields if field.name not in self._ignored]
        names = [field.name for field in fields]
        for field in fields:
            _check(field.name, field.dataType)
        if len(set(names)) < len(names):
            raise ConfigError(f"a column exists twice: {', '.join(names)}")
        if "value" not in names:
            raise ConfigError(f"a write needs the column value; found {', '.join(names)}")
        if ("topic" in names) is topic_option:
            both = "both were given" if topic_option else "neither was given"
            raise ConfigError(f"give the topic as the option or as the column topic: {both}")
        self.topic, self.partition = "topic" in names, "partition" in names
        self.sized = tuple(name for name in _CONTENTS if name in names)
        self.create_time = "create_time" in names

    def check(self, window: Any) -> None:
        """Raises: BadRequest: a row has no value, or no topic."""
        for name in ("value", "topic"):
            if name in self._ignored:
                continue
            if name in window.column_names and (missing := window.column(name).null_count):
                raise BadRequest(
                    f"{missing} of {window.num_rows} rows have no {name}: null cannot be stored"
                )

    def messages(self, rows: Any) -> Any:
        """The rows as ``opentalos.sdk.arrow`` takes them."""
        left_out = _ROUTES | self._ignored
        kept = [name for name in rows.column_names if name not in left_out]
        return rows.select(kept).rename_columns([_NAMES.get(name, name) for name in kept])


def _metadata(topic_option: bool) -> frozenset[str]:
    return _SET_BY_THE_LOG | {"topic"} if topic_option else _SET_BY_THE_LOG


def check_partitions(column: Any, partitions: int, topic: str) -> None:
    """Raises: BadRequest: a row names a partition that the topic does not have."""
    ends = pc.min_max(column.cast(pa.int64()))
    for value in (ends["min"].as_py(), ends["max"].as_py()):
        if value is not None and not 0 <= value < partitions:
            raise BadRequest(f"a row has partition {value}; {topic} has 0 to {partitions - 1}")


def _check(name: str, given: types.DataType) -> None:
    if name in _SET_BY_THE_LOG:
        raise ConfigError(
            f"the column {name} is set by the log and cannot be written; drop it, or set "
            "the option metadata = ignore"
        )
    fitting: Sequence[type[types.DataType]] | None = _WRITTEN.get(name)
    if fitting is None:
        known = ", ".join(_WRITTEN)
        raise ConfigError(f"a write cannot have a column {name!r}; known: {known}")
    if not isinstance(given, tuple(fitting)):
        shown = " or ".join(kind.typeName() for kind in fitting)
        raise ConfigError(f"column {name!r} is {given.simpleString()}: cast it to {shown}")
