"""Bearer tokens of an identity provider: section [oidc] of the configuration; see ``limits``."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from opentalos.model.limits import need

# Only signatures that a public key verifies: with HS256 the issuer's public key would be a secret.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """[oidc] Bearer tokens (JWT) of an OpenID Connect issuer on REST."""

    issuer: str = ""  # URL that tokens name as iss; empty: no tokens are accepted
    audience: str = ""  # that tokens must name as aud
    jwks_url: str = ""  # the issuer's keys; empty: as its discovery document says
    ca_file: str = ""  # authorities of the issuer's certificate; empty: the system's list
    algorithms: str = "RS256 ES256"  # accepted signatures, separated by spaces
    leeway_s: float = 30.0  # that clocks may differ when expiry and start of a token are checked
    principal_claim: str = (
        "sub"  # its value is the principal's id; users must not be able to set it
    )
    organisation_claim: str = ""  # its value must be the principal's organisation; empty: unchecked
    create_principals: bool = False  # true: an unknown principal is created at its first token
    refresh_interval_s: float = 300.0  # keys older than this are fetched again; removed ones end
    fetch_interval_s: float = 10.0  # at least, between fetches for unknown keys and after failures
    fetch_timeout_s: float = 5.0  # of one fetch
    keys_age_max_s: float = 86_400.0  # while the issuer is unreachable, its keys stay valid so long

    def __post_init__(self) -> None:
        unknown = [name for name in self.algorithms.split() if name not in ALGORITHMS]
        need(not unknown, f"algorithms must be of {', '.join(ALGORITHMS)}")
        need(bool(self.algorithms.split()), "algorithms must name at least one")
        need(self.leeway_s <= 300, "need leeway_s <= 300")
        need(bool(self.principal_claim), "principal_claim must not be empty")
        need(0 < self.fetch_timeout_s <= 60, "need 0 < fetch_timeout_s <= 60")
        need(
            1 <= self.fetch_interval_s <= self.refresh_interval_s <= self.keys_age_max_s,
            "need 1 <= fetch_interval_s <= refresh_interval_s <= keys_age_max_s",
        )
        need(bool(self.issuer) == bool(self.audience), "set both issuer and audience, or neither")
        need(bool(self.issuer) or not self.jwks_url, "jwks_url needs issuer")
        for key, url in (("issuer", self.issuer), ("jwks_url", self.jwks_url)):
            need(not url or is_trusted(url), f"{key} must be an https:// URL, or on loopback")

    @property
    def enabled(self) -> bool:
        """Whether tokens are accepted."""
        return bool(self.issuer)


def is_trusted(url: str) -> bool:
    """Whether nobody on the way can replace what the URL serves."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    )
