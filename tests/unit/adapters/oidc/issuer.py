"""An issuer's keys and tokens, made on the spot."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from opentalos.adapters.oidc.settings import OidcSettings

URL, AUDIENCE = "https://issuer.example", "talos"


def settings(**more: Any) -> OidcSettings:
    return OidcSettings(issuer=URL, audience=AUDIENCE, **more)


@dataclass
class Issuer:
    """Signs with the key it has now; publishes all that it has not removed."""

    url: str = URL
    keys: dict[str, Any] = field(default_factory=dict)
    algorithms: dict[str, str] = field(default_factory=dict)

    def add(self, key_id: str, algorithm: str = "RS256") -> None:
        if algorithm.startswith("RS"):
            self.keys[key_id] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        else:
            self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())
        self.algorithms[key_id] = algorithm

    def key_set(self) -> Mapping[str, Any]:
        return {"keys": [self._published(key_id) for key_id in self.keys]}

    def token(self, key_id: str, *, signer: Any = None, **claims: Any) -> str:
        now_s = int(time.time())
        body = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": now_s + 600} | claims
        body = {name: value for name, value in body.items() if value is not None}
        algorithm = self.algorithms.get(key_id, "RS256")
        return jwt.encode(body, signer or self.keys[key_id], algorithm, headers={"kid": key_id})

    def _published(self, key_id: str) -> dict[str, Any]:
        algorithm = self.algorithms[key_id]
        kind = jwt.algorithms.RSAAlgorithm if algorithm[:2] == "RS" else jwt.algorithms.ECAlgorithm
        fields: dict[str, Any] = json.loads(kind.to_jwk(self.keys[key_id].public_key()))
        return fields | {"kid": key_id, "use": "sig", "alg": algorithm}
