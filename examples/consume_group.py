"""One worker of a consumer group: start it twice, and the two share the partitions.

usage: TALOS_URL=http://HOST:PORT TALOS_KEY=ID:SECRET consume_group.py TOPIC GROUP [MESSAGES]

Stops after MESSAGES messages, or at Ctrl-C. Processed records are committed; the next run continues
after them.
"""

import sys

from opentalos.sdk import Callbacks, ClientConfig, ConsumerSettings, TalosConsumer


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    topic, group = sys.argv[1:3]
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else None
    callbacks = Callbacks(
        on_assigned=lambda partitions: print("assigned", *partitions, flush=True),
        on_revoked=lambda partitions: print("revoked", *partitions, flush=True),
    )
    settings = ConsumerSettings(commit_interval_s=1.0)
    count = 0
    config = ClientConfig.from_environment()
    with TalosConsumer(config, topic, group, settings, callbacks) as consumer:
        for record in consumer:
            count += 1
            print(record.partition, record.offset, record.data.decode(), flush=True)
            if count == wanted:
                consumer.commit()  # includes this record, which does not count as processed yet
                break
    print("read", count)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
