"""Puts many messages, and counts the outcome of each.

usage: TALOS_URL=http://HOST:PORT TALOS_KEY=ID:SECRET produce.py TOPIC [MESSAGES]

Creates the topic if it does not exist. A message is stored when its on_success is called.
"""

import sys
from collections import Counter

from opentalos.sdk import Client, ClientConfig, Message, TalosAdmin, TalosProducer
from opentalos.sdk.errors import TopicExists


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    topic = sys.argv[1]
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    outcomes = Counter()

    def stored(message, partition, offset):
        outcomes["stored"] += 1

    def failed(message, error, outcome):
        # NOT_DONE: safe to send again. UNKNOWN: stored or not; a second put may duplicate it.
        outcomes[outcome.value] += 1
        sys.stderr.write(f"{message.partition_key}: {error}\n")

    with Client(ClientConfig.from_environment()) as client:
        try:
            TalosAdmin(client).topics.create(topic, partitions=4)
        except TopicExists:
            pass
        with TalosProducer(client, topic) as producer:
            for number in range(messages):
                order = Message(
                    data=b'{"order": %d}' % number, partition_key=f"customer-{number % 7}"
                )
                producer.put(order, on_success=stored, on_error=failed)
            producer.flush()
    print(dict(outcomes))
    return 0 if outcomes["stored"] == messages else 1


if __name__ == "__main__":
    sys.exit(main())
