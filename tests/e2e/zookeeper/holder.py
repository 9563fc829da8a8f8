"""A process with an ephemeral record, ``python -m tests.e2e.zookeeper.holder URL SESSION_S``.

It reports on stdout, as lines of JSON, what it sees of its session, until it is killed.
"""

import asyncio
import faulthandler
import json
import sys
import time

from tests.waiting import elapse_async

from opentalos.adapters.zookeeper import open_zookeeper_meta_store
from opentalos.model.limits import ZookeeperLimits

LOOK_S = 0.01


def tell(**seen: object) -> None:
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()


async def main(url: str, session_s: float) -> None:
    store = await open_zookeeper_meta_store(url, ZookeeperLimits(session_s=session_s))
    await store.create("live", b"me", ephemeral=True)
    # The time first: the process may be stopped as soon as it has told.
    loop, looked_s = asyncio.get_running_loop(), time.monotonic()
    tell(event="ready")
    shown: tuple[bool, int, bool] | None = None
    while True:
        now_s = time.monotonic()
        session = store.session()
        is_late = loop.time() > session.valid_until_s  # the claim is about time
        valid = not session.lost and not is_late
        if now_s - looked_s > session_s:
            tell(event="first look after a pause", valid=valid)
        looked_s = now_s
        if (valid, session.incarnation, session.connected) != shown:
            shown = (valid, session.incarnation, session.connected)
            tell(event="session", valid=valid, incarnation=session.incarnation)
        await elapse_async("the session is read again and again", LOOK_S)


if __name__ == "__main__":
    faulthandler.enable()  # SIGABRT shows where each thread is
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
