"""DescribeCluster and FindCoordinator: the servers, and which one coordinates a group."""

from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.wire.kafka._generated.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from opentalos.wire.kafka._generated.find_coordinator_request import FindCoordinatorRequest
from opentalos.wire.kafka._generated.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)
from opentalos.wire.kafka.errors import ErrorCode

GROUP = 0  # type of a key; 1: a transactional id, 2: a share group
BROKERS = 1  # type of an endpoint; 2: controllers, which are no servers of their own here
NOBODY = -1
_NO_TRANSACTIONS = "transactions are not supported"
_NOT_COORDINATED = "only consumer groups have a coordinator"
_NONE_YET = "no server with a port for Kafka coordinates the group yet"
# Bits of Kafka's operations on the cluster. Source: AclOperation of Apache Kafka 4.3.
_CREATE, _DESCRIBE = 1 << 5, 1 << 8
_OF_ADMIN = 1 << 7 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12


def cluster_operations(caller: Principal) -> int:
    """What the caller may do with the cluster as a whole."""
    if caller.anonymous:
        return _DESCRIBE
    return _CREATE | _DESCRIBE | (_OF_ADMIN if caller.admin else 0)


def this_node(services: Services) -> int:
    """The number of this server. It is named as controller: every server changes topics."""
    return services.broker.kafka_nodes.own


async def describe(services: Services, call: KafkaCall) -> DescribeClusterResponse:
    """Every server with a port for Kafka."""
    if call.request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            error_message="clients connect to brokers only",
            endpoint_type=call.request.endpoint_type,
        )
    response = DescribeClusterResponse(
        cluster_id=services.cluster,
        controller_id=this_node(services),
        brokers=[
            DescribeClusterBroker(broker_id=node.number, host=node.host, port=node.port)
            for node in services.broker.kafka_nodes.nodes()
        ],
    )
    if call.request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call.caller)
    return response


async def find_coordinator(services: Services, call: KafkaCall) -> FindCoordinatorResponse:
    """The server that coordinates each group; several keys from version 4 on."""
    request: FindCoordinatorRequest = call.request
    if call.version < 4:
        found = _coordinator(services, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    keys = dict.fromkeys(request.coordinator_keys)
    kind = request.key_type
    found_all = await services.broker.work.each(
        call.caller.id, list(keys), lambda key: _coordinator(services, kind, key)
    )
    return FindCoordinatorResponse(coordinators=found_all)


def _coordinator(services: Services, kind: int, key: str) -> Coordinator:
    if kind == 1:
        return _none(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONS)
    if kind != GROUP:
        return _none(key, ErrorCode.INVALID_REQUEST, _NOT_COORDINATED)
    try:
        node = services.broker.kafka_nodes.coordinator(key)
    except TalosError as error:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    if node is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NONE_YET)
    return Coordinator(
        key=key, node_id=node.number, host=node.host, port=node.port, error_message=None
    )


def _none(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NOBODY, port=NOBODY, error_code=int(code), error_message=text
    )
