"""CertificatePrincipals: who a verified client certificate is."""

from collections.abc import Sequence

from opentalos.broker.admin.token_principals import known_principal
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.model.identity import CertificateRule, PeerCertificate, Principal, principal_of


class CertificatePrincipals:
    """Maps certificates to principals of the directory by the rules of the configuration."""

    def __init__(self, directory: PrincipalDirectory, rules: Sequence[CertificateRule]) -> None:
        self._directory, self._rules = directory, rules

    def name(self, certificate: PeerCertificate | None, now_s: float) -> str:
        """The principal's id; empty: the connection identifies nobody."""
        return principal_of(self._rules, certificate, now_s) if certificate else ""

    def principal(self, name: str) -> Principal:
        """The principal of that id. Raises: InvalidCredential."""
        return known_principal(self._directory, name, "certificate").principal
