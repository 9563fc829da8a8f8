"""What one RowStore write means: from a row's state to the next, once for all adapters."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentalos.model.errors import BadRequest, VersionConflict
from opentalos.ports.row_store import ABSENT, FamilyName, Row, RowMutation

WRITE_ID_BYTES_MAX = 16
KEY_BYTES_MAX = 4096


class RowState(NamedTuple):
    """A row as it is stored. A deleted row stays as a tombstone, so that versions only grow."""

    version: int
    write_id: bytes
    deleted: bool
    data: Mapping[bytes, bytes]
    pending: Mapping[bytes, bytes]

    def row(self, key: bytes, family: FamilyName) -> Row | None:
        """The row as readers see it; None for a tombstone."""
        if self.deleted:
            return None
        return Row(key, self.version, self.data if family is FamilyName.DATA else self.pending)

    def scanned(self, key: bytes, family: FamilyName) -> Row | None:
        """The row as a scan gives it: of pending cells, only rows that have some."""
        found = self.row(key, family)
        return found if found is not None and (family is FamilyName.DATA or found.cells) else None


NEVER_WRITTEN = RowState(ABSENT, b"", True, {}, {})


def check_mutation(mutation: RowMutation) -> None:
    """Raises: BadRequest: the mutation can never be applied to any row."""
    if not 0 < len(mutation.key) <= KEY_BYTES_MAX:
        raise BadRequest(f"row key of {len(mutation.key)} bytes, need 1 to {KEY_BYTES_MAX}")
    if not 0 < len(mutation.write_id) <= WRITE_ID_BYTES_MAX:
        raise BadRequest(f"write id of {len(mutation.write_id)} bytes, need 1 to 16")
    if mutation.expected < ABSENT:
        raise BadRequest(f"expected version {mutation.expected} is negative")
    if mutation.delete and (mutation.data or mutation.pending):
        raise BadRequest("a mutation that deletes the row sets no cells")


def check_mutations(mutations: Sequence[RowMutation]) -> None:
    """Raises: BadRequest: one of them is wrong, or two are of the same row."""
    for mutation in mutations:
        check_mutation(mutation)
    if len({mutation.key for mutation in mutations}) != len(mutations):
        raise BadRequest("two mutations of one call are of the same row")


def check_scan(limit: int) -> None:
    """Raises: BadRequest."""
    if limit <= 0:
        raise BadRequest(f"scan limit {limit} is not positive")


def only_clears(mutation: RowMutation) -> bool:
    """Whether it removes pending cells of a row that is there, and does nothing else."""
    if mutation.data or mutation.delete or mutation.expected == ABSENT or not mutation.pending:
        return False
    return all(cell is None for cell in mutation.pending.values())


def next_version(current: RowState, mutation: RowMutation) -> int | None:
    """The row's version after the mutation; None: this very write was applied before.

    The write id is checked first: a repeat of the last write finds its own version and not the
    expected one. The cells of ``current`` are not used.

    Raises: VersionConflict: not done.
    """
    if current.version > ABSENT and mutation.write_id == current.write_id:
        return None
    visible = ABSENT if current.deleted else current.version
    if mutation.expected != visible:
        raise VersionConflict(
            f"row {mutation.key[:32].hex()}: version {visible}, expected {mutation.expected}"
        )
    return current.version if only_clears(mutation) else current.version + 1


def next_state(current: RowState, mutation: RowMutation) -> RowState:
    """The row after the mutation; ``current`` itself if this very write was applied before.

    Raises: VersionConflict: not done.
    """
    version = next_version(current, mutation)
    if version is None:
        return current
    if mutation.delete:
        return RowState(version, mutation.write_id, True, {}, {})
    pending = merged(current.pending, mutation.pending)
    if version == current.version:
        return current._replace(pending=pending)
    return RowState(version, mutation.write_id, False, merged(current.data, mutation.data), pending)


def merged(
    cells: Mapping[bytes, bytes], changes: Mapping[bytes, bytes | None]
) -> Mapping[bytes, bytes]:
    """A family's cells after the changes; a None removes."""
    if not changes:
        return cells
    merged = dict(cells)
    for column, cell in changes.items():
        if cell is None:
            merged.pop(column, None)
        else:
            merged[column] = cell
    return merged
