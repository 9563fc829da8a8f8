"""Puts and fetches Arrow tables, without a Python object per message. Needs opentalos[arrow].

usage: TALOS_URL=http://HOST:PORT TALOS_KEY=ID:SECRET arrow_batches.py TOPIC [ROWS]
"""

import sys

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.sdk import Client, ClientConfig, SimpleConsumer, TalosAdmin, TalosProducer
from opentalos.sdk.errors import TopicExists


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    topic = sys.argv[1]
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with Client(ClientConfig.from_environment()) as client:
        try:
            TalosAdmin(client).topics.create(topic, partitions=2)
        except TopicExists:
            pass
        with TalosProducer(client, topic) as producer:
            data = pa.array([b"reading %d" % number for number in range(rows)], pa.binary())
            producer.put_arrow(pa.table({"data": data}))
            producer.flush()
        consumer = SimpleConsumer(client, topic)
        total = size = 0
        for partition, offsets in consumer.offsets().items():
            position = offsets.start
            while position < offsets.next:
                table = consumer.fetch_arrow(partition, position)
                total += table.num_rows
                size += pc.sum(pc.binary_length(table["data"])).as_py()
                position = table["offset"][-1].as_py() + 1
    print("rows", total, "bytes", size)


if __name__ == "__main__":
    main()
