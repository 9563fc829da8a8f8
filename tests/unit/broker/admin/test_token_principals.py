"""Whom the claims of a token name."""

import pytest
from tests.unit.broker.support import world

from opentalos.broker.admin.token_principals import TokenPrincipals
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import TokenIdentity


def _token(principal: str, organisation: str | None = None) -> TokenIdentity:
    return TokenIdentity(principal, organisation, 0.0)


async def test_a_token_is_the_principal_that_it_names() -> None:
    async with world() as w:
        root = await w.broker.principals.ensure_root("rootkey", "root-secret")
        carol = await w.broker.principals.create(root, "carol", organisation="CLacme")
        tokens = TokenPrincipals(w.broker.catalogs.principals, create=False)
        assert tokens.principal(_token("carol")) == carol
        assert tokens.principal(_token("carol", "CLacme")) == carol
        with pytest.raises(InvalidCredential, match="another organisation"):
            tokens.principal(_token("carol", "CLother"))
        await w.broker.principals.set_disabled(root, "carol", True)
        await tokens.ensure(_token("eve"))
        for name in ("carol", "eve"):
            with pytest.raises(InvalidCredential, match="unknown or disabled"):
                tokens.principal(_token(name))


@pytest.mark.parametrize("name", ["root", "CLacme", "CIred"])
async def test_no_token_is_root_an_organisation_or_a_team(name: str) -> None:
    async with world() as w:
        root = await w.broker.principals.ensure_root("rootkey", "root-secret")
        for known in ("CLacme", "CIred"):
            await w.broker.principals.create(root, known)
        for create in (False, True):
            tokens = TokenPrincipals(w.broker.catalogs.principals, create=create)
            await tokens.ensure(_token(name))
            with pytest.raises(InvalidCredential, match="no token can be"):
                tokens.principal(_token(name))
        with pytest.raises(InvalidCredential, match="no token can be"):
            await tokens.ensure(_token("CLnew"))


async def test_an_unknown_principal_is_created_if_that_is_configured() -> None:
    async with world() as w:
        tokens = TokenPrincipals(w.broker.catalogs.principals, create=True)
        await tokens.ensure(_token("eve", "CLacme"))
        await tokens.ensure(_token("eve", "CLother"))
        eve = tokens.principal(_token("eve", "CLacme"))
        assert (eve.organisation, eve.admin, eve.number > 0) == ("CLacme", False, True)
        for name, organisation in (("a/b", None), ("guest", None), ("dave", "acme")):
            with pytest.raises(InvalidCredential, match="no usable principal"):
                await tokens.ensure(_token(name, organisation))
