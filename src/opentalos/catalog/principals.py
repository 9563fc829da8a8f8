"""Principals and their keys; secrets are sealed at rest and shown once."""

from dataclasses import dataclass
from typing import NamedTuple

from opentalos.model.identity import Principal


class LiveKey(NamedTuple):
    """What the signature check needs of a key."""

    principal: Principal
    secret: bytes
    disabled: bool  # the key, or its principal


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; its secret is shown here and never again."""

    key_id: str
    secret: str


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key as lists show it, without its secret."""

    key_id: str
    created_ms: int
    disabled: bool


@dataclass(frozen=True, slots=True)
class PrincipalInfo:
    """A principal as lists show it."""

    principal: Principal
    keys: tuple[KeyInfo, ...]
    created_ms: int
    disabled: bool
