"""All structured tables in memory, loaded from the MetaStore and changed by compare-and-set."""

from collections.abc import Callable, Collection, Sequence

from opentalos.catalog.access.authorize import table_not_exist
from opentalos.catalog.access.plain_names import PlainNames, how_to_name
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.catalog.records.unseen_records import UnseenRecords
from opentalos.catalog.tables.space import TableSpaces
from opentalos.catalog.tables.table import Table, decode_table, encode_table
from opentalos.model.errors import NotFound, TableNotExist
from opentalos.model.identity import Principal
from opentalos.model.names import check_name
from opentalos.model.table import TableState
from opentalos.ports.meta_store import MetaStore

TABLES = "tables"  # folder of the records
Listener = Callable[[Table | None, Table | None], None]  # (old, new), each None when absent


class TableCatalog:
    """The table records. Only tables that are not being dropped can be looked up."""

    def __init__(self, meta: MetaStore, listener: Listener = lambda old, new: None) -> None:
        codec = Codec(encode_table, decode_table)
        self._records = RecordIndex(meta, TABLES, codec, self._record_changed)
        self.unseen = UnseenRecords(self._records, TABLES)
        self.spaces = TableSpaces(meta, self._quota_of)
        self._listener = listener
        self._by_uuid: dict[str, Table] = {}
        self.names: PlainNames[Table] = PlainNames()
        self._dropped: dict[str, Table] = {}  # by uuid

    async def start(self) -> None:
        """Load all tables. Raises: NewerFormat, CorruptLog."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self.spaces.close()
        await self._records.close()

    def by_uuid(self, table_uuid: str) -> Table | None:
        """The table of that id; sync, for the hot path."""
        return self._by_uuid.get(table_uuid)

    def find(self, caller: Principal, name: str) -> Table | None:
        """Resolve a plain name or ``owner/name`` for a caller, from memory; hot path.

        A plain name means the caller's organisation's table, then its own, then the only one
        whose grant it accepted (``PlainNames``). The result is not yet authorised.
        """
        owner, slash, plain = name.rpartition("/")
        return self.names.owned(owner, plain) if slash else self.names.meant(caller, plain)

    async def read(self, caller: Principal, name: str) -> Table:
        """``find`` from the MetaStore, after memory had no such table.

        Raises: TableNotExist, InvalidName; Unavailable: unknown.
        """
        owner, slash, plain = name.rpartition("/")
        check_name(plain, "table name")
        owners = (owner,) if slash else tuple(dict.fromkeys((caller.owner_id, caller.id)))
        if slash or not caller.anonymous:
            await self.unseen.look([(owner, plain, None) for owner in owners])
        found = self.find(caller, name)
        if found is None:
            raise unknown_table(self.names, caller, name)
        return found

    def all(self) -> Collection[Table]:
        """Every table that is not being dropped; a live view, not to be kept over an await."""
        return self._by_uuid.values()

    def dropped(self) -> Sequence[Table]:
        """Tables whose deletion is not complete."""
        return list(self._dropped.values())

    def record(self, owner: str, name: str) -> Table | None:
        """The record of that name, be it live or being dropped."""
        return self._records.get(table_path(owner, name))

    async def refresh(self, owner: str, name: str) -> Table | None:
        """``record`` from the MetaStore. Raises: Unavailable."""
        await self._records.refresh(table_path(owner, name))
        return self.record(owner, name)

    async def create(self, table: Table) -> None:
        """Store a new table. Raises: AlreadyExists: ``record`` has the existing one."""
        await self._records.create(table_path(table.owner, table.name), table)

    async def change(self, table: Table, change: Callable[[Table], Table]) -> Table:
        """Change this table, but not one that was created again under its name.

        Raises: TableNotExist, and whatever ``change`` raises.
        """

        def same_table(stored: Table) -> Table:
            if stored.uuid != table.uuid or stored.state == TableState.DELETING:
                raise table_not_exist(table.name)
            return change(stored)

        try:
            return await self._records.change(table_path(table.owner, table.name), same_table)
        except NotFound:
            raise table_not_exist(table.name) from None

    async def remove(self, dead: Table) -> None:
        """Remove a dropped table's record once its rows are gone; the name is free then."""
        await self._records.remove(table_path(dead.owner, dead.name), dead)

    def _quota_of(self, table_uuid: str) -> int | None:
        table = self._by_uuid.get(table_uuid)
        return table.quota_bytes if table else None

    def _record_changed(self, path: str, old: Table | None, new: Table | None) -> None:
        if old is not None:
            self._forget(old)
            if new is None or new.quota_bytes is None:
                self.spaces.forget(old.uuid)
        if new is not None:
            if new.state == TableState.DELETING:
                self._dropped[new.uuid] = new
            else:
                self._by_uuid[new.uuid] = new
                self.names.add(new)
        self._listener(old, new)

    def _forget(self, old: Table) -> None:
        self._dropped.pop(old.uuid, None)
        if self._by_uuid.pop(old.uuid, None) is None:
            return
        self.names.remove(old)


def unknown_table(names: PlainNames[Table], caller: Principal, name: str) -> TableNotExist:
    """The error for a name that means no table to the caller."""
    error = table_not_exist(name)
    hint = "" if "/" in name else how_to_name("table", names.usable(caller, name))
    return TableNotExist(f"{error}{hint}") if hint else error


def table_path(owner: str, name: str) -> str:
    """Path of a table's record."""
    return record_path(TABLES, owner, name)
