"""A small asyncio service: reads orders, writes invoices, and processes each order at least once.

usage: TALOS_URL=http://HOST:PORT TALOS_KEY=ID:SECRET async_service.py ORDERS INVOICES [MESSAGES]

An order is committed only after its invoice is stored, so a crash in between redelivers it. The
producer is idempotent: a retried put is stored once.
"""

import asyncio
import json
import sys

from opentalos.sdk import ClientConfig, ConsumerSettings, Message
from opentalos.sdk.aio import Client, TalosConsumer, TalosProducer


async def serve(orders, invoices, wanted):
    """Process ``wanted`` orders; None: run until stopped."""
    settings = ConsumerSettings(auto_commit=False)
    done = 0
    async with (
        Client(ClientConfig.from_environment()) as client,
        TalosProducer(client, invoices) as producer,
        TalosConsumer(client, orders, "invoicing", settings) as consumer,
    ):
        async for batch in consumer.batches():
            for record in batch:
                invoice = {"invoice_for": json.loads(record.data)["order"]}
                data = json.dumps(invoice).encode()
                await producer.put(Message(data=data, partition_key=record.partition_key))
            await producer.flush()  # raises if one of them failed: the batch is not committed
            await consumer.commit()
            done += len(batch)
            if wanted is not None and done >= wanted:
                break
    print("invoices", done)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else None
    asyncio.run(serve(sys.argv[1], sys.argv[2], limit))
