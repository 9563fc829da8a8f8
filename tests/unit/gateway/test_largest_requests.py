"""No request of one tenant occupies the event loop for long, through any door of HTTP.

Each entry of the tables of methods and routes is sent with each of its arrays filled, to a broker
that stores much of the tenant, and no step of the loop may make more than ``CALLS_MAX`` calls.
"""

from collections.abc import Iterator, Sequence

import pytest
from tests.loop_steps import LoopSteps
from tests.unit.gateway.crowded import Crowd, Request, crowded
from tests.unit.gateway.largest_requests import Largest, RestRequests, Sizes, ThriftRequests

from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.route import Route, names_of
from opentalos.gateway.sds_http.gateway import BODY_BYTES_MAX
from opentalos.gateway.sds_http.handlers import HANDLERS as SDS_HANDLERS
from opentalos.gateway.thrift_http.gateway import ADMIN_BODY_BYTES_MAX
from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.wire._generated import sds
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.thrift import ThriftProtocol

# 0.2 us each on a quiet processor of 2024, so about 3 ms. A piece of 256 items has 2,000 (names
# that are converted) to 10,000 (partitions that are asked), one of 512 values that are decoded
# 4,000 to 13,000.
CALLS_MAX = 14_000
THRIFT_SIZES = (Sizes(5_000), Sizes(150, 40))
SDS_SIZES = (Sizes(1_500), Sizes(75, 20))
REST_SIZES = (Sizes(5_000), Sizes(100, 40))
SDS_PARTS = 4  # of a service's methods, so that no test takes long
PLACES = {
    "topic": "big", "table": "people", "partition": "0", "group": "g0", "worker": "w0",
    "id": "alice", "grantee": "friend1", "name": "CL1", "user": "alice", "tenant": "alice",
    "month": "2026-01",
}  # fmt: skip
LARGE = ("limit", "messages_max", "minutes_max")  # parameters of which the largest value is sent
ENDS = ("delete", "drop", "disable", "DELETE")  # calls after which less is stored come last


async def walked(crowd: Crowd, requests: Sequence[Request]) -> LoopSteps:
    """Send requests one after the other."""
    with LoopSteps() as steps:
        crowd.offload.steps = steps
        for request in sorted(requests, key=lambda request: any(e in request.label for e in ENDS)):
            answered = await crowd.send(steps, request)
            assert answered.status != 500, (request.label, answered.body)
    return steps


def check(steps: LoopSteps, requests: Sequence[Request]) -> None:
    large = [step for step in steps.by_label.values() if step.label and step.calls > CALLS_MAX]
    assert not large, f"steps of more than {CALLS_MAX} calls, of all:\n{steps.table()}"
    assert {request.label for request in requests} <= steps.by_label.keys()  # all were walked


def thrift_requests(crowd: Crowd) -> Iterator[Request]:
    protocol = ThriftProtocol.COMPACT
    made = ThriftRequests(protocol, crowd.named, ADMIN_BODY_BYTES_MAX)
    headers = {b"content-type": protocol.value.encode()}
    for name, methods in HANDLERS.items():
        service = SERVICES[name]
        for rpc in methods:
            for found in made.of(service.methods[rpc], THRIFT_SIZES):
                label = f"{name}.{rpc} {found.array}"
                yield Request(label, b"POST", service.path.encode(), found.body, headers)


def sds_requests(crowd: Crowd, name: str, part: slice) -> Iterator[Request]:
    protocol = ThriftProtocol.BINARY
    made = ThriftRequests(protocol, crowd.named, BODY_BYTES_MAX)
    headers = {b"content-type": protocol.value.encode()}
    service = sds.SERVICES[name]
    for rpc in list(SDS_HANDLERS[name])[part]:
        for found in made.of(service.methods[rpc], SDS_SIZES):
            label = f"{name}.{rpc} {found.array}"
            yield Request(label, b"POST", service.path.encode(), found.body, headers)


def rest_requests(crowd: Crowd) -> Iterator[Request]:
    made = RestRequests(crowd.named)
    for route in TABLE.routes:
        if route.streams or route.path == "session":  # endless; only about the caller itself
            continue
        bodies = [Largest("", b"")] if route.body is None else made.of(route, REST_SIZES)
        headers = {} if route.body is None else {b"content-type": b"application/json"}
        for found in bodies:
            for query in queries_of(route):
                label = f"{route.method} {route.path}{query} {found.array}"
                url = f"/rest/v1/{path_of(route)}{query}".encode()
                yield Request(label, route.method.encode(), url, found.body, headers)


def path_of(route: Route) -> str:
    path = route.path
    for name in names_of(route):
        path = path.replace(f"{{{name}}}", PLACES.get(name, name))
    return path


def queries_of(route: Route) -> Iterator[str]:
    yield ""
    large = [f"{name}={route.query[name]['maximum']}" for name in LARGE if name in route.query]
    if large:
        yield "?" + "&".join(large)


async def test_no_call_of_thrift_occupies_the_loop() -> None:
    async with crowded() as crowd:
        requests = list(thrift_requests(crowd))
        check(await walked(crowd, requests), requests)


@pytest.mark.parametrize("part", range(SDS_PARTS))
@pytest.mark.parametrize("service", SDS_HANDLERS)
async def test_no_call_of_sds_occupies_the_loop(service: str, part: int) -> None:
    async with crowded() as crowd:
        requests = list(sds_requests(crowd, service, slice(part, None, SDS_PARTS)))
        check(await walked(crowd, requests), requests)


async def test_no_call_of_rest_occupies_the_loop() -> None:
    async with crowded() as crowd:
        requests = list(rest_requests(crowd))
        check(await walked(crowd, requests), requests)
