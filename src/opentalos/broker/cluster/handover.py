"""Handover: the log follows the published assignments.

``Cluster`` starts it and forwards changes of control records to it. Moving a partition costs no
acknowledged message: the new owner fences before it reads (promise I2).
"""

import asyncio
import logging

from opentalos.broker.cluster.cluster_ownership import (
    ClusterLeaderEpochs,
    ClusterOwnership,
    own_partitions,
)
from opentalos.broker.cluster.ownership_guard import ClusterOwnershipGuard, handover_max_s
from opentalos.broker.cluster.records import ASSIGNMENT
from opentalos.broker.cluster.state import ClusterState
from opentalos.log.log_store import LogStore
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger("opentalos.cluster")


class Handover:
    """Hands off partitions assigned to another server, recovers those assigned to this one.

    One task compares each changed assignment with what this server has. A partition that was
    assigned away is refused at once and sealed within ``handover_max_s``, all in parallel; what is
    not sealed by then is dropped, and its new owner recovers it. While the session is lapsed
    nothing is compared, and open partitions continue. Afterwards ``resume`` drops what another
    server took over meanwhile, and ``restart`` takes all assignments again.
    """

    def __init__(
        self,
        state: ClusterState,
        ownership: ClusterOwnership,
        guard: ClusterOwnershipGuard,
        log: LogStore,
        epochs: ClusterLeaderEpochs,
    ) -> None:
        self._state, self._ownership, self._guard, self._log = state, ownership, guard, log
        self._epochs = epochs
        self._mine: dict[str, frozenset[int]] = {}  # partitions by topic uuid
        self._noted: dict[str, None] = {}  # topics whose assignment changed
        self._following = True
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._releases: dict[asyncio.Task[None], None] = {}  # bounded by the partitions there are

    def record_changed(self, path: str) -> None:
        """A control record is about to change."""
        kind, _, topic_uuid = path.partition("/")
        if kind == ASSIGNMENT:
            self._noted[topic_uuid] = None
            self._wakeup.set()

    def start(self) -> None:
        """Take the current assignments, then follow changes."""
        self.restart()
        self._task = asyncio.create_task(self._run(), name="handover")

    async def close(self) -> None:
        """Stop; partitions being handed off are sealed first, as far as there is time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*self._releases, return_exceptions=True)

    @property
    def empty(self) -> bool:
        """Nothing is assigned to this server, and what it had is handed off."""
        return not self._mine and not self._releases

    def stand_still(self) -> None:
        """The session lapsed: what is assigned to whom cannot be known."""
        self._following = False

    async def resume(self) -> None:
        """Keep what no other server took over meanwhile, drop the rest.

        Raises: Unavailable: it is not known of all partitions; call it again.
        """
        error = PartitionNotServing("another server took the partition over meanwhile")
        for key in await self._log.drop_taken(error):
            mine = self._mine.get(key.topic_uuid, frozenset())
            self._mine[key.topic_uuid] = mine - {
                key.partition
            }  # if it is to return, it comes again

    def restart(self) -> None:
        """Follow all assignments; those that are gone by now as well."""
        self._following = True
        for topic_uuid in (*self._mine, *self._state.assigned_topics()):
            self._noted[topic_uuid] = None
        self._wakeup.set()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if not self._following:
                continue  # ``restart`` compares everything again
            noted, self._noted = self._noted, {}
            came: list[PartitionKey] = []
            for topic_uuid in noted:
                came += self._compare(topic_uuid)
            if came:
                self._log.recover_soon(came)

    def _compare(self, topic_uuid: str) -> list[PartitionKey]:
        """Hand off what was assigned away; return what was assigned to this server."""
        before = self._mine.get(topic_uuid, frozenset())
        now = own_partitions(self._ownership, topic_uuid)
        if now:
            self._mine[topic_uuid] = now
        else:
            self._mine.pop(topic_uuid, None)
        came = [PartitionKey(topic_uuid, number) for number in sorted(now - before)]
        left = [PartitionKey(topic_uuid, number) for number in sorted(before - now)]
        self._guard.forget((*came, *left))
        self._epochs.changed(topic_uuid, came, left)
        for key in left:
            if self._state.assignment(topic_uuid) is None:
                self._log.drop(key, PartitionNotServing(f"topic {topic_uuid} was deleted"))
            else:
                self._start_release(key)
        return came

    def _start_release(self, key: PartitionKey) -> None:
        refusal = self._ownership.refusal(key.topic_uuid, key.partition)
        if refusal is None:
            return
        task = asyncio.get_running_loop().create_task(
            self._release(key, refusal), name=f"release {key.topic_uuid}/{key.partition}"
        )
        self._releases[task] = None
        task.add_done_callback(self._release_ended)

    def _release_ended(self, task: asyncio.Task[None]) -> None:
        self._releases.pop(task, None)

    async def _release(self, key: PartitionKey, refusal: TalosError) -> None:
        try:
            most_s = handover_max_s(self._guard.handover_s, journaled=self._log.journaled)
            async with asyncio.timeout(most_s):
                await self._log.hand_off(key, refusal)
        except (TalosError, TimeoutError) as error:
            _log.warning("%s was not sealed, its new owner recovers it: %r", key, error)
