"""Which tokens are valid."""

import time
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.adapters.oidc.issuer import AUDIENCE, URL, Issuer, settings

from opentalos.adapters.oidc.issuer_keys import IssuerKeys
from opentalos.adapters.oidc.verifier import TokenVerifier
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import TokenIdentity


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    made = Issuer()
    made.add("rsa")
    made.add("ec", "ES256")
    return made


def _verifier(issuer: Issuer, **more: Any) -> TokenVerifier:
    async def fetch() -> Mapping[str, Any]:
        return issuer.key_set()

    chosen = settings(**more)
    return TokenVerifier(chosen, IssuerKeys(chosen, fetch))


async def _verified(verifier: TokenVerifier, token: str) -> TokenIdentity:
    await verifier.ready(token)
    return verifier.verify(token)


@pytest.mark.parametrize("key_id", ["rsa", "ec"])
async def test_a_token_of_the_issuer_names_its_bearer(issuer: Issuer, key_id: str) -> None:
    verifier = _verifier(issuer, principal_claim="email", organisation_claim="org")
    token = issuer.token(key_id, email="alice@example", org="CLacme")
    identity = await _verified(verifier, token)
    assert (identity.principal, identity.organisation) == ("alice@example", "CLacme")
    assert verifier.verify(token) is identity
    assert (await _verified(_verifier(issuer), token)).organisation is None


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "issuer"),
        ({"aud": "another"}, "audience"),
        ({"aud": None}, "aud"),
        ({"exp": None}, "exp"),
        ({"exp": int(time.time()) - 120}, "expired"),
        ({"nbf": int(time.time()) + 600}, "not yet valid"),
        ({"sub": None}, "claim sub"),
        ({"sub": ""}, "claim sub"),
        ({"sub": "x" * 129}, "claim sub"),
    ],
)
async def test_a_token_that_is_not_for_this_server_now_is_refused(
    issuer: Issuer, claims: dict[str, Any], reason: str
) -> None:
    verifier = _verifier(issuer)
    token = issuer.token("rsa", **claims)
    with pytest.raises(InvalidCredential, match=f"(?i){reason}"):
        await _verified(verifier, token)


async def test_clocks_may_differ_by_the_leeway(issuer: Issuer) -> None:
    token = issuer.token("rsa", exp=int(time.time()) - 20, nbf=int(time.time()) - 10)
    assert (await _verified(_verifier(issuer), token)).principal == "alice"
    with pytest.raises(InvalidCredential, match="expired"):
        await _verified(_verifier(issuer, leeway_s=1), token)


async def test_a_forged_signature_is_refused(issuer: Issuer) -> None:
    verifier = _verifier(issuer)
    forged = issuer.token("ec", signer=ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(InvalidCredential, match=r"[Ss]ignature"):
        await _verified(verifier, forged)
    head, body, signature = issuer.token("rsa").split(".")
    other = issuer.token("rsa", sub="root").split(".")[1]
    for changed in (f"{head}.{other}.{signature}", f"{head}.{body}."):
        with pytest.raises(InvalidCredential):
            await _verified(verifier, changed)


async def test_only_configured_public_key_algorithms_count(issuer: Issuer) -> None:
    verifier = _verifier(issuer)
    claims = {"iss": URL, "aud": AUDIENCE, "sub": "root", "exp": int(time.time()) + 600}
    public = issuer.keys["rsa"].public_key()
    secret = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    tokens = [
        jwt.encode(claims, "", "none", headers={"kid": "rsa"}),
        jwt.encode(claims, secret[1:], "HS256", headers={"kid": "rsa"}),
        jwt.encode(claims, issuer.keys["rsa"], "RS512", headers={"kid": "rsa"}),
        jwt.encode(claims, issuer.keys["rsa"], "RS256", headers={"kid": "ec"}),
    ]
    for token in tokens:
        with pytest.raises(InvalidCredential):
            await _verified(verifier, token)
    with pytest.raises(InvalidCredential, match="algorithm"):
        await _verified(_verifier(issuer, algorithms="ES256"), issuer.token("rsa"))


@pytest.mark.parametrize("token", ["", "..", "a.b.c", "e30.e30.", "x" * 10_000 + "..", "é.b.c"])
async def test_what_is_no_token_is_refused(issuer: Issuer, token: str) -> None:
    with pytest.raises(InvalidCredential):
        await _verified(_verifier(issuer), token)


async def test_a_verified_token_ends_with_its_key(issuer: Issuer) -> None:
    own = Issuer(keys=dict(issuer.keys), algorithms=dict(issuer.algorithms))

    async def fetch() -> Mapping[str, Any]:
        return own.key_set()

    keys = IssuerKeys(settings(), fetch)
    verifier = TokenVerifier(settings(), keys)
    token = own.token("rsa")
    await _verified(verifier, token)
    del own.keys["rsa"]
    await keys._run()
    with pytest.raises(InvalidCredential, match="no key of that id"):
        verifier.verify(token)
