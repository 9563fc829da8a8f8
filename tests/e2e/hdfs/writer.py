"""A writer in a process of its own: writer.py URL PATH JARS LIMITS_JSON."""

import asyncio
import json
import sys

from opentalos.adapters.hdfs import open_hdfs_file_store
from opentalos.model.errors import TalosError
from opentalos.model.limits import HdfsLimits, JvmLimits
from opentalos.model.message import Durability


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def write(url: str, path: str, jars: str, limits: HdfsLimits) -> None:
    try:
        store = await open_hdfs_file_store(url, JvmLimits(jars=jars), limits)
        file = await store.create(path, durability=Durability.SYNCED)
        number = 0
        while True:
            say(f"start {number + 1}")
            await file.commit([b"%07d\n" % number])
            number += 1
            say(f"acked {number}")
    except TalosError as error:
        say(f"end {type(error).__name__}: {error}")


_, url, path, jars, settings = sys.argv
asyncio.run(write(url, path, jars, HdfsLimits(**json.loads(settings))))
