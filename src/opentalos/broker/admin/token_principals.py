"""TokenPrincipals: who the claims of a verified token are."""

from opentalos.catalog.principals.principals import (
    ORGANISATION_PREFIX,
    ROOT_ID,
    TEAM_PREFIX,
    PrincipalDirectory,
    PrincipalInfo,
)
from opentalos.model.errors import InvalidCredential, InvalidName, PrincipalExists
from opentalos.model.identity import Principal, TokenIdentity


class TokenPrincipals:
    """Maps claims to principals of the directory, and creates these if that is configured.

    A token is never ``root``, whose key is the server's own, nor an organisation or a team, which
    own what their members share: a claim that a user can set must not lead there.
    """

    def __init__(self, directory: PrincipalDirectory, *, create: bool) -> None:
        self._directory, self._create = directory, create

    async def ensure(self, identity: TokenIdentity) -> None:
        """Create the principal if it is missing and may be created.

        Raises: InvalidCredential: the claims are no names of a principal and an organisation.
        """
        if not self._create or self._directory.get(identity.principal) is not None:
            return
        _check(identity.principal, "token")
        organisation = identity.organisation or ""
        try:
            await self._directory.create(identity.principal, organisation, "", admin=False)
        except PrincipalExists:
            pass  # at the same time by another call
        except InvalidName as error:
            raise InvalidCredential(f"the token names no usable principal: {error}") from error

    def principal(self, identity: TokenIdentity) -> Principal:
        """The principal. Raises: InvalidCredential."""
        info = known_principal(self._directory, identity.principal, "token")
        if identity.organisation not in (None, info.principal.organisation):
            raise InvalidCredential("the token names another organisation than its principal's")
        return info.principal


def known_principal(directory: PrincipalDirectory, name: str, what: str) -> PrincipalInfo:
    """The principal that a token or a certificate names. Raises: InvalidCredential."""
    _check(name, what)
    info = directory.info(name)
    if info is None or info.disabled:
        raise InvalidCredential(
            f"the {what} names an unknown or disabled principal; ask an administrator to create "
            "or enable it"
        )
    return info


def _check(name: str, what: str) -> None:
    """Raises: InvalidCredential."""
    if name == ROOT_ID or name.startswith((ORGANISATION_PREFIX, TEAM_PREFIX)):
        raise InvalidCredential(f"the {what} names a principal that no {what} can be")
