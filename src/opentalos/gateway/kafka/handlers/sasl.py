"""SASL: which mechanisms there are, and their exchanges.

Source: Apache Kafka 4.3: KIP-43 and KIP-152 for the requests, KIP-368 for sessions that end.
"""

import asyncio
import time
from typing import Final

from opentalos.gateway.kafka.call import ClientSession, KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.mechanisms import Authenticated
from opentalos.gateway.thrift_http.authentication import NO_MATCH
from opentalos.model.errors import AttemptsExceeded, TalosError
from opentalos.model.settings.kafka import UNKNOWN_BYTES_MAX
from opentalos.wire.kafka._generated.sasl_authenticate_response import SaslAuthenticateResponse
from opentalos.wire.kafka._generated.sasl_handshake_response import SaslHandshakeResponse
from opentalos.wire.kafka.errors import ErrorCode

# Refusals take as long whatever the reason is: how long a check took would say whether there is
# such a key.
REFUSED_AFTER_S: Final = 0.1
_NO_MATCH: Final = "unknown key, wrong secret, or too many failed attempts from this address"


class Exchange:
    """What a connection's client is about to prove; in the session's state."""

    def __init__(self, name: str, session: ClientSession, services: Services) -> None:
        self.mechanism = services.mechanisms.begin(name, session)


async def handshake(services: Services, call: KafkaCall) -> SaslHandshakeResponse:
    """The client names a mechanism; the answer says which there are.

    After version 0 the client would send bytes that are no request, so that one is refused.
    """
    name, names = str(call.request.mechanism), services.mechanisms.names
    if call.version == 0:
        code = int(ErrorCode.UNSUPPORTED_VERSION)
        return SaslHandshakeResponse(error_code=code, mechanisms=names)
    if name not in names:
        code = int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        return SaslHandshakeResponse(error_code=code, mechanisms=names)
    call.session.state[Exchange] = Exchange(name, call.session, services)
    return SaslHandshakeResponse(mechanisms=names)


async def authenticate(services: Services, call: KafkaCall) -> SaslAuthenticateResponse:
    """The client's bytes of the mechanism. After a refusal the connection ends."""
    session, began_s = call.session, asyncio.get_running_loop().time()
    exchange = session.state.get(Exchange)
    if exchange is None:
        return _refused(session, ErrorCode.ILLEGAL_SASL_STATE, "a handshake comes first")
    if len(call.request.auth_bytes) > UNKNOWN_BYTES_MAX:
        text = f"more than {UNKNOWN_BYTES_MAX} bytes"
        return _refused(session, ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    try:
        step = await exchange.mechanism.step(call.request.auth_bytes)
        if step.found is not None:
            del session.state[Exchange]
            _admit(session, step.found)
    except (TalosError, ValueError) as error:
        services.port.failed(session.peer, "sasl_authenticate", error)
        await asyncio.sleep(began_s + REFUSED_AFTER_S - asyncio.get_running_loop().time())
        return _refused(session, ErrorCode.SASL_AUTHENTICATION_FAILED, _reason(error))
    return SaslAuthenticateResponse(
        auth_bytes=step.answer, session_lifetime_ms=_lifetime_ms(step.found)
    )


def _reason(error: Exception) -> str:
    """The same text for every reason that would say whether there is such a key."""
    same = isinstance(error, AttemptsExceeded) or str(error) == NO_MATCH
    return _NO_MATCH if same else str(error)


def _admit(session: ClientSession, found: Authenticated) -> None:
    """Raises: ValueError: it is another principal than before."""
    if session.check is not None and session.caller.id != found.principal.id:
        raise ValueError("a connection cannot change its principal; open another one")
    session.caller, session.check, session.authenticated = found.principal, found.check, True
    session.ends_s = found.ends_s


def _lifetime_ms(found: Authenticated | None) -> int:
    """For how long the client need not authenticate again; 0: without a limit, or not yet known."""
    if found is None or not found.ends_s:
        return 0
    return max(1, int((found.ends_s - time.time()) * 1000))


def _refused(session: ClientSession, code: ErrorCode, text: str) -> SaslAuthenticateResponse:
    session.ends = True
    return SaslAuthenticateResponse(error_code=int(code), error_message=text)
