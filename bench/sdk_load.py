"""A client process of our SDK: run one job and print its cost. Started by ``sdk_figures``.

Takes one JSON object as argument and prints one: messages, CPU seconds of this process with all
its threads, and wall seconds, from the first call to the last message stored or read.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.sdk_payloads import messages_of, payloads_of, table_of
from opentalos.sdk import (
    ClientConfig,
    Compression,
    ProducerSettings,
    SimpleConsumer,
    SimpleProducer,
    TalosConsumer,
    TalosProducer,
)

Arguments = dict[str, Any]
BLOCK_MESSAGES = 1_000  # of a filled topic, as producers with full batches leave it
PUT_MANY = 1_000  # messages of one call
FETCH = {"messages_max": 10_000, "bytes_max": 2 << 20}  # as TalosConsumer asks
WARM_MESSAGES = 1_000


def config(arguments: Arguments) -> ClientConfig:
    """The server under load."""
    return ClientConfig(
        endpoints=(arguments["url"],), key_id=arguments["key_id"], secret=arguments["secret"]
    )


def compression(arguments: Arguments) -> Compression:
    """Of what is put."""
    name = arguments.get("compression")
    return Compression[name] if name else ProducerSettings().compression


def producer(arguments: Arguments) -> TalosProducer:
    """With defaults apart from the compression."""
    settings = ProducerSettings(compression=compression(arguments))
    return TalosProducer(config(arguments), arguments["topic"], settings)


def fill(arguments: Arguments) -> int:
    """Store messages in full blocks, distributed over the partitions."""
    given = messages_of(arguments["size"])
    packed = compression(arguments)
    with SimpleProducer(config(arguments), arguments["topic"], compression=packed) as simple:
        for number in range(arguments["messages"] // BLOCK_MESSAGES):
            simple.put(given[:BLOCK_MESSAGES], partition=number % arguments["partitions"])
    return int(arguments["messages"])


def put(arguments: Arguments) -> int:
    """One call for each message."""
    payloads = payloads_of(arguments["size"])
    wanted = arguments["messages"]
    with producer(arguments) as talos:
        for payload in itertools.islice(itertools.cycle(payloads), wanted):
            talos.put(payload)
        talos.flush()
    return int(wanted)


def put_many(arguments: Arguments) -> int:
    """One call for a thousand messages."""
    given = messages_of(arguments["size"])[:PUT_MANY]
    calls = arguments["messages"] // PUT_MANY
    with producer(arguments) as talos:
        for _ in range(calls):
            talos.put_many(given)
        talos.flush()
    return int(calls * PUT_MANY)


def put_arrow(arguments: Arguments) -> int:
    """One call for a table of ten thousand messages."""
    table = table_of(arguments["size"])
    calls = max(1, arguments["messages"] // table.num_rows)
    with producer(arguments) as talos:
        for _ in range(calls):
            talos.put_arrow(table)
        talos.flush()
    return int(calls * table.num_rows)


def fetch(arguments: Arguments) -> int:
    """Fetch objects, partition by partition."""
    read = 0
    with SimpleConsumer(config(arguments), arguments["topic"]) as consumer:
        for partition in range(arguments["partitions"]):
            offset = 0
            while records := consumer.fetch(partition, offset, **FETCH):
                offset = records[-1].offset + 1
                read += len(records)
                if read >= arguments["messages"]:
                    return read
    return read


def fetch_arrow(arguments: Arguments) -> int:
    """Fetch tables, partition by partition."""
    read = 0
    with SimpleConsumer(config(arguments), arguments["topic"]) as consumer:
        for partition in range(arguments["partitions"]):
            offset = 0
            while rows := len(consumer.fetch_arrow(partition, offset, **FETCH)):
                offset += rows
                read += rows
                if read >= arguments["messages"]:
                    return read
    return read


def consume(arguments: Arguments) -> int:
    """Consume objects as a worker of a group."""
    read = 0
    with TalosConsumer(config(arguments), arguments["topic"], arguments["group"]) as consumer:
        for _ in consumer:
            read += 1
            if read == arguments["messages"]:
                break
    return read


def consume_batches(arguments: Arguments) -> int:
    """Consume lists of objects as a worker of a group."""
    read = 0
    with TalosConsumer(config(arguments), arguments["topic"], arguments["group"]) as consumer:
        for records in consumer.batches():
            read += len(records)
            if read >= arguments["messages"]:
                break
    return read


def consume_arrow(arguments: Arguments) -> int:
    """Consume tables as a worker of a group."""
    read = 0
    with TalosConsumer(config(arguments), arguments["topic"], arguments["group"]) as consumer:
        for table in consumer.batches(arrow=True):
            read += len(table)
            if read >= arguments["messages"]:
                break
    return read


JOBS: dict[str, Callable[[Arguments], int]] = {
    "fill": fill,
    "put": put,
    "put_many": put_many,
    "put_arrow": put_arrow,
    "fetch": fetch,
    "fetch_arrow": fetch_arrow,
    "consume": consume,
    "consume_batches": consume_batches,
    "consume_arrow": consume_arrow,
}


def main() -> None:
    """Run the job named in the argument."""
    arguments = json.loads(sys.argv[1])
    job = JOBS[arguments["job"]]
    if job is put_arrow:
        table_of(arguments["size"])
    # Imports, payloads and the first connection come before the clock starts.
    job({**arguments, "messages": WARM_MESSAGES, "group": f"{arguments['group']}-warm"})
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    messages = job(arguments)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - begin_s
    print(json.dumps({"messages": messages, "cpu_s": cpu_s, "wall_s": wall_s}))


if __name__ == "__main__":
    main()
