"""Traffic that keeps running after the tour, so that the pages of the console have live data.

A program of its own, ended by the demo or with it: ``python -m opentalos.cli.demo.live``, with the
server and the key in the environment.
"""

import json
import math
import time
from contextlib import ExitStack, suppress
from typing import Final

from opentalos.cli.demo.readers import OwnReader
from opentalos.cli.input.parent import end_with_stdin
from opentalos.sdk import Client, ClientConfig, Message, TalosAdmin, TalosProducer
from opentalos.sdk.errors import TopicExists

TOPIC: Final = "demo-live"
GROUP: Final = "live-readers"
PARTITIONS: Final = 4
RETENTION_S: Final = 86_400
PAUSE_S: Final = 0.1
WAVE_S: Final = 120.0  # from one maximum of the rate to the next
MESSAGES_MAX: Final = 8  # of one pause: 80 a second
CUSTOMERS: Final = 40
PRICES: Final = 97


def main() -> None:
    """Put orders at a changing rate, and read them in a group, until stdin ends."""
    end_with_stdin()
    config = ClientConfig.from_environment()
    with ExitStack() as undo:
        client = undo.enter_context(Client(config))
        admin = undo.enter_context(TalosAdmin(client))
        with suppress(TopicExists):
            admin.topics.create(TOPIC, partitions=PARTITIONS, retention_s=RETENTION_S)
        undo.callback(OwnReader(config, TOPIC, GROUP).stop)
        producer = undo.enter_context(TalosProducer(client, TOPIC))
        number = 0
        while True:
            wave = (1 + math.sin(2 * math.pi * time.monotonic() / WAVE_S)) / 2
            for _ in range(1 + round(wave * (MESSAGES_MAX - 1))):
                number += 1
                customer = number % CUSTOMERS
                order = {"order": number, "customer": customer, "total": number % PRICES}
                data = json.dumps(order).encode()
                producer.put(Message(data, partition_key=f"customer-{customer}"))
            producer.flush()
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
