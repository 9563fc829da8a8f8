"""The change stream of a structured table, for asyncio.

Values such as ``Replica`` and ``StreamChange`` are in ``opentalos.sdk.stream``.
"""

from opentalos.sdk.aio.stream.change_reader import ChangeReader
from opentalos.sdk.aio.stream.table_follower import TableFollower

__all__ = ["ChangeReader", "TableFollower"]
