"""SASL: a key's id and secret as user name and password.

Source: KIP-43 and KIP-152 for the requests; RFC 4616 for PLAIN.
"""

from opentalos.gateway.kafka.call import ClientSession, KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.model.errors import TalosError
from opentalos.wire.kafka._generated.sasl_authenticate_response import SaslAuthenticateResponse
from opentalos.wire.kafka._generated.sasl_handshake_response import SaslHandshakeResponse
from opentalos.wire.kafka.errors import ErrorCode

PLAIN = "PLAIN"
MECHANISMS = [PLAIN]


class ChosenMechanism(str):
    """What the client has announced; in the session's state."""

    __slots__ = ()


async def handshake(services: Services, call: KafkaCall) -> SaslHandshakeResponse:
    """The client names a mechanism; the answer says which there are."""
    name = str(call.request.mechanism)
    if name not in MECHANISMS:
        code = int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        return SaslHandshakeResponse(error_code=code, mechanisms=MECHANISMS)
    call.session.state[ChosenMechanism] = ChosenMechanism(name)
    return SaslHandshakeResponse(mechanisms=MECHANISMS)


async def authenticate(services: Services, call: KafkaCall) -> SaslAuthenticateResponse:
    """The client's bytes of the mechanism. A refusal says why, and the client closes."""
    session = call.session
    if session.state.get(ChosenMechanism) != PLAIN:
        return _refused(ErrorCode.ILLEGAL_SASL_STATE, "a handshake comes first")
    try:
        _plain(services, session, call.request.auth_bytes)
    except (TalosError, ValueError) as error:
        return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
    return SaslAuthenticateResponse()


def _plain(services: Services, session: ClientSession, auth_bytes: bytes) -> None:
    """Raises: ValueError: not of the form; InvalidCredential, AttemptsExceeded."""
    parts = auth_bytes.split(b"\0")
    if len(parts) != 3:
        raise ValueError("PLAIN needs authorization id, user name and password")
    authorize_as, name, password = (part.decode("utf-8", "replace") for part in parts)
    if authorize_as not in ("", name):
        raise ValueError("nobody may act as another user")
    by_secret = services.authenticator.by_secret
    session.caller = by_secret(name, password, session.peer, private=session.private)
    session.authenticated = True


def _refused(code: ErrorCode, text: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=int(code), error_message=text)
