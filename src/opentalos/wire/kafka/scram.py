"""SCRAM, the server's part: messages and proofs; sans-io.

Source: RFC 5802, RFC 7677; KIP-84 for the use in Kafka (no channel binding).
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final, NamedTuple

ITERATIONS: Final = 4096  # the least that the clients accept
_NONCE_CHARS_MAX: Final = 256
_FIRST: Final = re.compile(r"([ny]),(?:a=([^,]*))?,n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?")
_FINAL: Final = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=([^,]+)")


class ScramError(Exception):
    """A message of the client is not of the form, or belongs to another exchange."""


class ScramKeys(NamedTuple):
    """What the server needs of a secret."""

    stored: bytes
    server: bytes


class ClientFirst(NamedTuple):
    """The client's first message. ``bare``: without the header."""

    name: str
    authorize_as: str
    nonce: str
    header: str
    bare: str


class ClientFinal(NamedTuple):
    """The client's second message. ``unproven``: all of it but the proof."""

    header: bytes
    nonce: str
    proof: bytes
    unproven: str


def derive(digest: str, secret: bytes, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys:
    """The keys of a secret; takes some milliseconds, without the interpreter lock."""
    salted = hashlib.pbkdf2_hmac(digest, secret, salt, iterations)
    client = hmac.digest(salted, b"Client Key", digest)
    return ScramKeys(
        hashlib.new(digest, client).digest(), hmac.digest(salted, b"Server Key", digest)
    )


def read_first(data: bytes) -> ClientFirst:
    """Raises: ScramError."""
    found = _FIRST.fullmatch(_text(data))
    if found is None:
        raise ScramError("the first message must be n,,n=USER,r=NONCE")
    flag, authorize_as, name, nonce = found.groups()
    if len(nonce) > _NONCE_CHARS_MAX:
        raise ScramError(f"a nonce of {len(nonce)} characters")
    text = found.group()
    header = f"{flag},{'' if authorize_as is None else f'a={authorize_as}'},"
    return ClientFirst(
        _name(name), _name(authorize_as or ""), nonce, header, text.removeprefix(header)
    )


def server_first(nonce: str, salt: bytes, iterations: int = ITERATIONS) -> str:
    """The answer to the first message. ``nonce``: the client's and the server's."""
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


def read_final(data: bytes) -> ClientFinal:
    """Raises: ScramError."""
    found = _FINAL.fullmatch(_text(data))
    if found is None:
        raise ScramError("the second message must be c=HEADER,r=NONCE,p=PROOF")
    unproven, header, nonce, proof = found.groups()
    return ClientFinal(_decoded(header), nonce, _decoded(proof), unproven)


def check_final(first: ClientFirst, final: ClientFinal, nonce: str) -> None:
    """Whether the second message belongs to the exchange. Raises: ScramError."""
    if final.nonce != nonce:
        raise ScramError("the nonce is another one")
    if final.header != first.header.encode():
        raise ScramError("the header is another one")


def is_proven(digest: str, keys: ScramKeys, proof: bytes, exchange: str) -> bool:
    """Whether the client has the secret. ``exchange``: the three messages, joined by commas."""
    signature = hmac.digest(keys.stored, exchange.encode(), digest)
    if len(signature) != len(proof):
        return False
    client = bytes(left ^ right for left, right in zip(signature, proof, strict=True))
    return hmac.compare_digest(hashlib.new(digest, client).digest(), keys.stored)


def server_final(digest: str, keys: ScramKeys, exchange: str) -> str:
    """Shows the client that the server has the secret, too."""
    signature = hmac.digest(keys.server, exchange.encode(), digest)
    return f"v={base64.b64encode(signature).decode()}"


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramError("a message is not UTF-8") from None


def _name(text: str) -> str:
    """Raises: ScramError."""
    if re.search("=(?!2C|3D)", text):
        raise ScramError("a name with an unknown escape")
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError("a value is not base64") from None
