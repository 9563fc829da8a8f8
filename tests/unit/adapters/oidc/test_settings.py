"""Which settings of tokens are safe."""

from typing import Any

import pytest
from tests.unit.matrix import matrix

from opentalos.adapters.oidc.settings import OidcSettings


@matrix(
    "wrong",
    [
        {"issuer": "https://issuer.example"},
        {"audience": "talos"},
        {"jwks_url": "https://issuer.example/keys"},
        {"issuer": "http://issuer.example", "audience": "talos"},
        {"issuer": "https://", "audience": "talos"},
        {"issuer": "http://[", "audience": "talos"},
        {"issuer": "https://i", "audience": "talos", "jwks_url": "http://i.example/keys"},
        {"algorithms": "HS256"},
        {"algorithms": "none"},
        {"algorithms": ""},
        {"leeway_s": 301.0},
        {"principal_claim": ""},
        {"refresh_interval_s": 1.0},
    ],
)
def test_unsafe_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"need|must|set both"):
        OidcSettings(**wrong)


@pytest.mark.parametrize("issuer", ["https://issuer.example/realm", "http://127.0.0.1:8080"])
def test_an_issuer_is_reached_by_tls_or_on_loopback(issuer: str) -> None:
    assert OidcSettings(issuer=issuer, audience="talos").enabled
    assert not OidcSettings().enabled
