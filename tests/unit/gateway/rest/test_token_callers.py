"""Calls with a bearer token."""

from dataclasses import replace

import pytest
from tests.unit.gateway.rest.support import Rest, exchanged

from opentalos.broker.admin.token_principals import TokenPrincipals
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.rest.token_callers import TokenCallers
from opentalos.gateway.session.callers import Callers
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential, StoreUnavailable
from opentalos.model.identity import TokenIdentity
from opentalos.model.settings.security import AuthLimits


class Verifier:
    """Every token that was prepared and begins with a name is valid."""

    def __init__(self) -> None:
        self.prepared: set[str] = set()

    async def ready(self, token: str) -> None:
        if token.startswith("away"):
            raise StoreUnavailable("the issuer is away")
        self.prepared.add(token)

    def verify(self, token: str) -> TokenIdentity:
        if token not in self.prepared or token.startswith("wrong"):
            raise InvalidCredential("invalid token: not one of the issuer")
        return TokenIdentity(token.partition(".")[0], None, 0.0)


@pytest.fixture
def with_tokens(call: Rest) -> Rest:
    broker = call.world.broker
    authenticator = Authenticator(broker.principals, AuthLimits())
    principals = TokenPrincipals(broker.catalogs.principals, create=False)
    tokens = TokenCallers(Verifier(), principals, authenticator)
    return replace(
        call, gateway=RestGateway(broker, Callers(authenticator, broker.sessions, tokens))
    )


async def _listed(call: Rest, token: str) -> tuple[int, object]:
    headers = {"authorization": f"Bearer {token}"}
    replied = await call("GET", "principals", headers=headers)
    return replied.status, [item["id"] for item in replied.document.get("principals", ())]


async def test_a_token_and_a_key_end_in_the_same_principal(with_tokens: Rest) -> None:
    assert await _listed(with_tokens, "alice.b.c") == (200, ["alice"])
    assert (await with_tokens("GET", "principals", by="alice")).status == 200


async def test_a_token_that_is_refused_is_answered_as_a_wrong_key(
    with_tokens: Rest, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await _listed(with_tokens, "wrong.b.c"))[0] == 401
    assert (await _listed(with_tokens, "nobody.b.c"))[0] == 401
    assert (await _listed(with_tokens, "away.b.c"))[0] == 503
    shown = [vars(record)["who"] for record in caplog.records if hasattr(record, "who")]
    assert shown == ["Bearer token"] * 2


async def test_a_token_that_others_can_read_on_its_way_is_refused(with_tokens: Rest) -> None:
    headers = {b"authorization": b"Bearer alice.b.c"}
    url = "/rest/v1/principals"
    replied = await exchanged(with_tokens.gateway, "GET", url, headers, b"", private=False)
    assert replied.status == 401
    assert "TLS" in replied.document["detail"]


async def test_without_configuration_a_token_is_no_credential(call: Rest) -> None:
    assert (await _listed(call, "alice.b.c"))[0] == 401
