"""A pool of memory that owners share: no owner takes what the others need.

An owner may hold as much as stays free for the others, so one owner gets half of the pool, two get
a third each, and so on: there is always something left for the next. Its only request always fits
while the pool does.
"""


class Pool:
    """Bytes of one kind of callers, by owner."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max, self.used = bytes_max, 0
        self.held: dict[str, int] = {}  # owners without bytes are left out

    def fits(self, owner: str, count: int, own: int) -> bool:
        """Whether the owner may take so many bytes now.

        Args: own: bytes of the same request that the owner holds already.
        """
        used, before = self.used + count, self.held.get(owner, 0)
        if used > self.bytes_max:
            return False
        return before + count <= self.bytes_max - used or before == own

    def add(self, owner: str, count: int) -> None:
        """Count bytes, or with a negative count return them."""
        self.used += count
        held = self.held.get(owner, 0) + count
        if held:
            self.held[owner] = held
        else:
            del self.held[owner]


class Hold:
    """What one request takes of its pool."""

    __slots__ = ("_count", "_pool", "owner")

    def __init__(self, pool: Pool, owner: str) -> None:
        self._pool, self.owner, self._count = pool, owner, 0

    def fits(self, count: int) -> bool:
        """Whether so many further bytes may be read."""
        return self._pool.fits(self.owner, count, self._count)

    def take(self, count: int) -> bool:
        """Count these bytes; False: there is no room for them now."""
        if not self.fits(count):
            return False
        self._pool.add(self.owner, count)
        self._count += count
        return True

    def end(self) -> None:
        """Return everything."""
        if self._count:
            self._pool.add(self.owner, -self._count)
            self._count = 0
