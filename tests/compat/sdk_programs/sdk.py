"""What the SDK programs share: configuration, credential, arguments, results.

These programs run in ``.sdk-venv`` under the official SDK. They take one JSON object as argument
and write JSON lines to stdout; they leave with ``os._exit``, since the SDK leaves threads behind.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from talos.admin.TalosAdmin import TalosAdmin
from talos.client.TalosClientConfig import TalosClientConfig
from talos.client.TalosClientFactory import TalosClientFactory
from talos.client.TalosErrors import TalosTransportError
from talos.client.TalosHttpClient import TalosHttpClient
from talos.thrift.auth.ttypes import Credential, UserType
from talos.thrift.common.ttypes import ErrorCode, GalaxyTalosException
from talos.thrift.protocol.TCompactProtocol import TCompactProtocol
from talos.thrift.topic.ttypes import GetDescribeInfoRequest, TopicAndPartition

Arguments = dict[str, Any]

# Python reads these in seconds where the Java and Go SDKs take milliseconds.
QUICK_ROUNDS = {
    "galaxy.talos.consumer.check.worker.info.interval": 0.4,
    "galaxy.talos.consumer.renew.interval": 0.4,
    "galaxy.talos.consumer.check.partition.interval": 0.6,
    "galaxy.talos.producer.check.partition.interval": 0.6,
}


def config(arguments: Arguments) -> Any:
    """The client configuration: no DNS queries, no metric pushes, short balance rounds."""
    return TalosClientConfig(
        {
            "galaxy.talos.service.endpoint": arguments["url"],
            "galaxy.talos.client.is.open.dns.resolver": False,
            "galaxy.talos.client.falcon.monitor.switch": False,
            **QUICK_ROUNDS,
            **arguments.get("config", {}),
        }
    )


def credential(arguments: Arguments) -> Any:
    return Credential(UserType.DEV_XIAOMI, arguments["key_id"], arguments["secret"])


def factory(arguments: Arguments) -> Any:
    return TalosClientFactory(config(arguments), credential(arguments))


def admin(arguments: Arguments) -> Any:
    return TalosAdmin(factory(arguments))


def service(arguments: Arguments, module: Any) -> Any:
    """A client of one whole service, from the SDK's generated code, over the SDK's transport."""
    name = module.__name__.rsplit(".", 1)[1].removesuffix("Service").lower()
    url = f"{arguments['url']}/v1/api/{name}"
    transport = TalosHttpClient(url, credential(arguments), 0, True, False)
    transport.set_timeout(5000)
    return module.Client(TCompactProtocol(transport))


def topic_and_partition(arguments: Arguments, topic: str, partition: int) -> Any:
    described = admin(arguments).get_describe_info(GetDescribeInfoRequest(topic))
    return TopicAndPartition(topic, described.topicTalosResourceName, partition)


def say(**values: Any) -> None:
    """One line of result."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def error_of(call: Callable[[], Any]) -> dict[str, Any]:
    """How a call fails: the error code, by name if the SDK knows it, or the transport's status."""
    try:
        call()
    except GalaxyTalosException as error:
        code = ErrorCode._VALUES_TO_NAMES.get(error.errorCode, error.errorCode)
        return {"code": code, "text": error.errMsg or ""}
    except TalosTransportError as error:
        return {"status": error.HttpStatusCode, "kind": type(error).__name__}
    except Exception as error:
        return {"kind": type(error).__name__, "text": str(error)}
    return {}


def reason(error: Exception) -> str:
    """Why a call failed, in the words that the history checker knows."""
    code = getattr(error, "errorCode", None)
    known = code == ErrorCode.MESSAGE_OFFSET_OUT_OF_RANGE
    return f"{'OffsetOutOfRange' if known else type(error).__name__}: {error}"[:200]


def run(program: Callable[[Arguments], None]) -> NoReturn:
    """Run a program on its argument and leave at once, whatever threads the SDK left."""
    logging.disable(logging.CRITICAL)
    try:
        program(json.loads(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
