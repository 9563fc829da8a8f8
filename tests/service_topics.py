"""What the service's own topics hold, as an administrator reads it."""

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.plain_messages import Bounds, Spot
from opentalos.model.identity import Principal

ROOT = Principal(id="root", number=1, admin=True)
BOUNDS = Bounds(1_000, 1 << 20)


async def messages_of(broker: Broker, topic: str) -> list[bytes]:
    """All messages, partition by partition, read through one server."""
    found = broker.topics.find_topic(ROOT, topic)
    data: list[bytes] = []
    for partition in range(found.partitions):
        offset = 0
        lag: int | None = 1
        while lag:
            spot = Spot(partition, offset)
            read = await broker.plain_messages.get_anywhere(ROOT, found.resource, spot, BOUNDS)
            data += [message.message.data for message in read.messages]
            offset, lag = read.next_offset, read.lag
    return data
