"""Wrappers that put any FileStore and RowStore behind a network that may be cut."""

from collections.abc import Sequence

from opentalos.model.errors import TalosError, WriterDead
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile, FileStore
from opentalos.ports.row_store import FamilyName, Row, RowMutation, RowStore
from opentalos.testing.simulation.cluster.network import Link


class LinkedAppendFile:
    """An AppendFile whose calls go over a link; it is dead after a call without a reply."""

    def __init__(self, inner: AppendFile, link: Link) -> None:
        self._inner, self._link = inner, link
        self._dead = False

    @property
    def thin(self) -> bool:
        """See the port."""
        return self._inner.thin

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """See the port."""
        self._check_alive()
        try:
            return await self._link.call(
                lambda: self._inner.commit(chunks, durability=durability), write=True
            )
        except BaseException:
            self._dead = True
            raise

    async def close(self) -> int:
        """See the port."""
        self._check_alive()
        try:
            return await self._link.call(self._inner.close, write=True)
        except BaseException:
            self._dead = True
            raise

    def _check_alive(self) -> None:
        if self._dead:
            raise WriterDead("an earlier call of this file got no reply")


class LinkedFileStore:
    """A FileStore whose calls go over a link."""

    def __init__(self, inner: FileStore, link: Link) -> None:
        self._inner, self._link = inner, link

    async def create(self, path: str, *, durability: Durability) -> LinkedAppendFile:
        """See the port."""
        made = await self._link.call(
            lambda: self._inner.create(path, durability=durability), write=True
        )
        return LinkedAppendFile(made, self._link)

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """See the port; idempotent, so a lost reply counts as a failure."""
        return await self._link.call(
            lambda: self._inner.recover(path, deadline_s=deadline_s), write=False
        )

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """See the port."""
        return await self._link.call(
            lambda: self._inner.read(path, position=position, bytes_max=bytes_max), write=False
        )

    async def list(self, prefix: str) -> Sequence[str]:
        """See the port."""
        return await self._link.call(lambda: self._inner.list(prefix), write=False)

    async def delete(self, path: str) -> None:
        """See the port."""
        await self._link.call(lambda: self._inner.delete(path), write=True)

    async def space(self) -> int:
        """See the port."""
        return await self._link.call(self._inner.space, write=False)

    async def close(self) -> None:
        """See the port; needs no network."""
        await self._inner.close()


class LinkedRowStore:
    """A RowStore whose calls go over a link."""

    def __init__(self, inner: RowStore, link: Link) -> None:
        self._inner, self._link = inner, link

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
        """See the port."""
        await self._link.call(lambda: self._inner.open_table(table, splits=splits), write=True)

    async def drop_table(self, table: str) -> None:
        """See the port."""
        await self._link.call(lambda: self._inner.drop_table(table), write=True)

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """See the port."""
        return await self._link.call(
            lambda: self._inner.get(table, keys, family=family), write=False
        )

    async def mutate(self, table: str, mutation: RowMutation) -> int:
        """See the port."""
        return await self._link.call(lambda: self._inner.mutate(table, mutation), write=True)

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        """See the port; one outcome for all if the network fails."""
        try:
            return await self._link.call(
                lambda: self._inner.mutate_many(table, mutations), write=True
            )
        except TalosError as error:
            return [error] * len(mutations)

    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]:
        """See the port."""
        return await self._link.call(
            lambda: self._inner.scan(
                table, start, stop, limit=limit, reverse=reverse, family=family
            ),
            write=False,
        )

    async def close(self) -> None:
        """See the port; needs no network."""
        await self._inner.close()
