"""Who the head of a request says that it is from, for the shares of memory for bodies."""

from collections.abc import Mapping

from opentalos.gateway.http.fairness.body_budget import Claim
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.gateway.rest.routing.credentials import credentials_of
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential
from opentalos.wire.peer_proof import CALL, TRANSFER
from opentalos.wire.sds.signing import HEADER_START, parse_header
from opentalos.wire.signing import parse_authorization

PEERS = "servers of the cluster"  # as owner of a share; no principal has such an id
_IN_THE_CLEAR = (b"basic ", b"bearer ")
_SCHEME_BYTES = 7  # of the longer one


class ClaimedCallers:
    """Looks up keys without checking signatures. Args: proofs: of a cluster's servers, or None."""

    def __init__(self, authenticator: Authenticator, proofs: ProofReader | None = None) -> None:
        self._authenticator, self._proofs = authenticator, proofs

    def identify(self, headers: Mapping[bytes, bytes], peer: str) -> Claim:
        """The owner of the named key, and whether the address has proven to have it."""
        if self._proofs is not None and (CALL in headers or TRANSFER in headers):
            return Claim(PEERS, True) if self._proofs.came_from(peer) else Claim()
        key_id = claimed_key(headers.get(b"authorization", b""))
        return Claim(*self._authenticator.claimed(key_id, peer)) if key_id else Claim()


def claimed_key(authorization: bytes) -> str:
    """The key id of an Authorization header of any form, or ""."""
    try:
        if authorization[:_SCHEME_BYTES].lower().startswith(_IN_THE_CLEAR):
            return credentials_of(authorization)[0]
        if authorization.startswith(HEADER_START):
            return parse_header(authorization).secretKeyId or ""
        return parse_authorization(authorization).key_id or ""
    except (InvalidCredential, ValueError):
        return ""
