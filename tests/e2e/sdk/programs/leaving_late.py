"""A script whose first request is made while the interpreter ends. Arguments: URL, ID:SECRET."""

import sys

from opentalos.sdk import ClientConfig, aio
from opentalos.sdk.sync.loop_thread import LoopThread

url, key = sys.argv[1:3]
key_id, _, secret = key.partition(":")


class Last:
    """Says good-bye."""

    async def close(self) -> None:
        config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
        async with aio.SimpleProducer(config, "good-bye") as producer:
            await producer.put([b"bye"])
        sys.stdout.write("said\n")


LoopThread.shared().close_at_exit(Last(), Last.close)
sys.stdout.write("end\n")
