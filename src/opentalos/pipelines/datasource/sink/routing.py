"""Cuts rows into blocks of partitions; the result depends only on the rows and their order."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from opentalos.model.errors import BadRequest
from opentalos.model.message import MessageBlock
from opentalos.pipelines.datasource.sink.columns import WriteColumns, check_partitions
from opentalos.pipelines.datasource.sink.options import WriteOptions
from opentalos.pipelines.datasource.sink.plan import Target
from opentalos.sdk.arrow import encode_batch
from opentalos.sdk.arrow.partitions import NO_PARTITION, partitions_of, rows_by_partition
from opentalos.sdk.core.producer.partitioner import partitioner_of

TOPICS_MAX: Final = 100  # in the rows of one task


class Cut(NamedTuple):
    """A block and its partition."""

    target: Target
    partition: int
    block: MessageBlock


class Router:
    """Cuts windows of rows into blocks.

    A row goes to the partition in its column ``partition``, otherwise to that of its key. Rows with
    neither are distributed round-robin, block by block, starting at the task's number.

    Args: find: returns a topic by name; create_ms: create time of rows without one.
    """

    def __init__(
        self,
        options: WriteOptions,
        columns: WriteColumns,
        find: Callable[[str], Target],
        *,
        task: int,
        create_ms: int,
    ) -> None:
        self._options, self._columns, self._find = options, columns, find
        self._task, self._create_ms = task, create_ms
        self._targets: dict[str, Target] = {}
        self._turns: dict[str, int] = {}  # of blocks without a partition, by topic

    def cuts(self, window: Any) -> Iterator[Cut]:
        """The blocks of a window, made lazily.

        Raises: BadRequest: a row has no value, or an unknown partition; TopicNotExist.
        """
        self._columns.check(window)
        for name, rows in self._by_topic(window):
            target = self._target(name)
            chosen = self._chosen(rows, target)
            messages = self._columns.messages(rows)
            for partition, numbers in rows_by_partition(chosen):
                whole = len(numbers) == rows.num_rows
                part = None if whole else numbers
                yield from self._blocks(messages, part, target, partition)

    def _blocks(
        self, messages: Any, rows: NDArray[np.int64] | None, target: Target, partition: int
    ) -> Iterator[Cut]:
        options = self._options
        for block in encode_batch(
            messages,
            options.compression,
            options.block_bytes,
            options.block_messages,
            self._create_ms,
            rows,
        ):
            yield Cut(target, self._turn(target) if partition == NO_PARTITION else partition, block)

    def _turn(self, target: Target) -> int:
        turn = self._turns.get(target.ref.resource, self._task)
        self._turns[target.ref.resource] = turn + 1
        return turn % target.ref.partitions

    def _by_topic(self, window: Any) -> Iterator[tuple[str, Any]]:
        if not self._columns.topic:
            yield self._options.topic, window
            return
        coded = window.column("topic").combine_chunks().dictionary_encode()
        names = coded.dictionary.to_pylist()
        for place, numbers in rows_by_partition(coded.indices.to_numpy().astype(np.int64)):
            yield names[place], window if len(names) == 1 else window.take(pa.array(numbers))

    def _target(self, name: str) -> Target:
        found = self._targets.get(name)
        if found is None:
            if len(self._targets) >= TOPICS_MAX:
                raise BadRequest(f"the rows of one task have more than {TOPICS_MAX} topics")
            found = self._targets[name] = self._find(name)
        return found

    def _chosen(self, rows: Any, target: Target) -> NDArray[np.int64]:
        """The partition of each row; NO_PARTITION: it has neither a partition nor a key."""
        partitions = target.ref.partitions
        if "key" in rows.column_names:
            place = partitioner_of(target.ref.partitioning)
            chosen = partitions_of(rows.column("key"), place, partitions)
        else:
            chosen = np.full(rows.num_rows, NO_PARTITION, np.int64)
        if not self._columns.partition:
            return chosen
        column = rows.column("partition")
        check_partitions(column, partitions, target.ref.name)
        said: NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), NO_PARTITION).to_numpy()
        return np.where(said == NO_PARTITION, chosen, said)
