"""Who calls and what may be done: principals, roles, limits of keys, grantees, permissions; what
tokens and client certificates say about their bearer."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum
from typing import Final, NamedTuple

CERTIFICATE_KINDS: Final = ("cn", "dns", "email", "uri")
CERTIFICATE_RULES_MAX: Final = 32
_RULE: Final = re.compile(r"(cn|dns|email|uri)=([^\s,*]*)\*([^\s,*]*)")


class Permission(IntFlag):
    """Permission bits per topic and grantee.

    Source: docs/protocol/administration.md#permissions.
    """

    NONE = 0
    PUT_MESSAGE = 1
    GET_MESSAGE = 2
    DESCRIBE_TOPIC = 4
    CHANGE_TOPIC = 8
    CHANGE_PERMISSION = 16
    ADMIN = 31


class TableRight(IntFlag):
    """What may be done with a structured table: the bits of Permission under a table's words."""

    NONE = 0
    WRITE = 1
    READ = 2
    DESCRIBE = 4
    ALTER = 8
    CHANGE_ACCESS = 16
    ADMIN = 31


class GrantType(IntEnum):
    """Kind of a grantee. Source: idl/authorization.thrift GrantType."""

    DEVELOPER = 1
    APP_ROOT = 2
    APP_USER = 3
    GUEST = 4


@dataclass(frozen=True, slots=True)
class Grantee:
    """Whom a topic permission is granted to: a principal, team or organisation id."""

    type: GrantType
    identifier: str


class Role(IntEnum):
    """What a principal may do in the whole service; ``catalog/access/roles.py`` has the table.

    An administrator is none of these: it has ``admin``.
    """

    USER = 0  # a tenant: its own resources and what it was granted
    VIEWER = 1
    OPERATOR = 2
    BILLING = 3
    AGENT = 4


class Scope(StrEnum):
    """One thing that a limited key may do, as far as its principal may."""

    PUT = "put"
    GET = "get"
    DESCRIBE = "describe"
    MANAGE = "manage"  # create, change and delete resources, grants and the principal's own keys
    ADMIN = "admin"  # use the principal's role in the whole service


_SCOPE_MASKS: Final[Mapping[Scope, int]] = {
    Scope.PUT: Permission.PUT_MESSAGE,
    Scope.GET: Permission.GET_MESSAGE,
    Scope.DESCRIBE: Permission.DESCRIBE_TOPIC,
    Scope.MANAGE: Permission.CHANGE_TOPIC | Permission.CHANGE_PERMISSION,
    Scope.ADMIN: Permission.NONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """What restricts a key. ``addresses`` are CIDR networks in their canonical text.

    Raises: ValueError: an unknown scope, an invalid network.
    """

    scopes: tuple[Scope, ...] = ()  # in the order of Scope; empty: all
    expires_ms: int = 0  # from then on the key is rejected; 0: never
    addresses: tuple[str, ...] = ()  # networks the key may be used from; empty: any
    mask: int = field(init=False, repr=False, compare=False)  # permission bits within the scopes
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        scopes = tuple(scope for scope in Scope if scope in {Scope(text) for text in self.scopes})
        networks = tuple(ipaddress.ip_network(text) for text in self.addresses)
        mask = sum(_SCOPE_MASKS[scope] for scope in scopes) if scopes else Permission.ADMIN
        for name, value in (
            ("scopes", scopes),
            ("addresses", tuple(str(network) for network in networks)),
            ("networks", networks),
            ("mask", int(mask)),
        ):
            object.__setattr__(self, name, value)

    def allows(self, scope: Scope) -> bool:
        """Whether the key has this scope."""
        return not self.scopes or scope in self.scopes

    def admits(self, peer: str) -> bool:
        """Whether the key may be used from this address."""
        if not self.networks:
            return True
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        # A port that listens on IPv6 shows clients of IPv4 in this form.
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.networks)

    def within(self, wider: "KeyLimits") -> bool:
        """Whether a key with these limits can do nothing that one with ``wider`` cannot."""
        if wider.scopes and not (self.scopes and set(self.scopes) <= set(wider.scopes)):
            return False
        if wider.expires_ms and not 0 < self.expires_ms <= wider.expires_ms:
            return False
        return not wider.networks or (
            bool(self.networks)
            and all(any(_inside(own, other) for other in wider.networks) for own in self.networks)
        )


def _inside(
    own: ipaddress.IPv4Network | ipaddress.IPv6Network,
    other: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> bool:
    return own.version == other.version and own.subnet_of(other)  # type: ignore[arg-type] # same


UNLIMITED: Final = KeyLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller, as every protocol's gateway hands it to the broker."""

    id: str  # account id; also the owner id of its topics unless it has an organisation
    number: int  # billing number, > 0; 0 is the anonymous guest
    organisation: str = ""  # "CL..." or empty
    team: str = ""  # "CI..." or empty
    admin: bool = False  # service administrator
    anonymous: bool = False
    role: Role = Role.USER
    limits: KeyLimits | None = None  # of the key that was used; None: it has none

    @property
    def owner_id(self) -> str:
        """Owner of the topics this principal creates."""
        return self.organisation or self.id

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Every id a grant may name to reach this principal, most specific first."""
        return tuple(name for name in (self.id, self.team, self.organisation) if name)


class TokenIdentity(NamedTuple):
    """What a valid bearer token says about its bearer. ``organisation``: None: it is not asked."""

    principal: str
    organisation: str | None
    expires_s: float  # Unix time


class PeerCertificate(NamedTuple):
    """What a verified certificate says. ``names``: one of CERTIFICATE_KINDS, and the value."""

    names: tuple[tuple[str, str], ...]
    expires_s: float  # Unix time


class CertificateRule(NamedTuple):
    """``KIND=PREFIX*SUFFIX``: what the star stands for is the principal's id."""

    kind: str
    prefix: str
    suffix: str

    def principal(self, kind: str, value: str) -> str:
        """The id; empty: the name does not match."""
        prefix, suffix = self.prefix, self.suffix
        # The star stands for at least one character.
        fits = len(value) > len(prefix) + len(suffix)
        if kind != self.kind or not fits:
            return ""
        if not (value.startswith(prefix) and value.endswith(suffix)):
            return ""
        return value[len(prefix) : len(value) - len(suffix)]


def parse_rules(text: str) -> tuple[CertificateRule, ...]:
    """Rules separated by commas or spaces. Raises: ValueError."""
    rules = []
    for part in re.split(r"[\s,]+", text.strip()):
        found = _RULE.fullmatch(part)
        if found is None:
            raise ValueError(
                "client_principals must be rules such as dns=*.clients.example or cn=*, each of "
                f"one of {', '.join(CERTIFICATE_KINDS)} and with one *"
            )
        rules.append(CertificateRule(*found.groups()))
    if len(rules) > CERTIFICATE_RULES_MAX:
        raise ValueError(f"client_principals must have {CERTIFICATE_RULES_MAX} rules or fewer")
    return tuple(rules)


def principal_of(
    rules: Sequence[CertificateRule], certificate: PeerCertificate, now_s: float
) -> str:
    """The id that the first matching rule gives; empty: none, or the certificate has expired.

    A certificate with two names that the rule makes two principals of is none of both.
    """
    if certificate.expires_s <= now_s:
        return ""  # it was valid when the connection began
    for rule in rules:
        found = {rule.principal(kind, value) for kind, value in certificate.names} - {""}
        if found:
            return found.pop() if len(found) == 1 else ""
    return ""


GUEST = Principal(id="guest", number=0, anonymous=True)
