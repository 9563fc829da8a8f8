"""InitProducerId: a random id for an idempotent producer, or the next epoch of the one it has.

Nothing is stored: the log learns of a producer with its first batch.

Source: Apache Kafka 4.3, KIP-98 and KIP-360.
"""

from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.model.message import PRODUCER_ID_MAX
from opentalos.wire.kafka._generated.init_producer_id_response import InitProducerIdResponse
from opentalos.wire.kafka.errors import ErrorCode

EPOCH_MAX = 32_766  # the last one that a producer gets; the protocol has 16 bits for it
_ID_BYTES = 8


async def handle(services: Services, call: KafkaCall) -> InitProducerIdResponse:
    """A transactional id is refused: transactions are not served."""
    request = call.request
    if request.transactional_id is not None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return InitProducerIdResponse(error_code=int(code))
    if 0 < request.producer_id <= PRODUCER_ID_MAX and 0 <= request.producer_epoch < EPOCH_MAX:
        epoch = request.producer_epoch + 1
        return InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=epoch)
    drawn = int.from_bytes(services.broker.context.clock.token(_ID_BYTES), "big")
    return InitProducerIdResponse(producer_id=drawn & PRODUCER_ID_MAX or 1, producer_epoch=0)
