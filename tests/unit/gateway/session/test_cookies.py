"""Which requests have the cookie of a session."""

from types import SimpleNamespace
from typing import Any

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.session.cookies import Cookie, cookie_of


def found(sent: bytes, *, secure: bool = False, **headers: bytes) -> Cookie | None:
    connection: Any = SimpleNamespace(secure=secure)
    named = {name.encode(): value for name, value in headers.items()}
    return cookie_of(Exchange(connection, b"GET", b"/", {b"cookie": sent} | named))


def test_the_first_cookie_of_the_name_counts() -> None:
    assert found(b"a=b; opentalos_session=x=y; opentalos_session=z") == (
        "opentalos_session",
        "x=y",
    )
    assert found(b"a=b; xopentalos_session=x") is None


def test_over_tls_only_the_name_that_neighbours_cannot_set_counts() -> None:
    both = b"opentalos_session=x; __Host-opentalos_session=y"
    assert found(both, secure=True) == ("__Host-opentalos_session", "y")
    assert found(b"opentalos_session=x", secure=True) is None


def test_an_authorization_header_makes_the_cookie_unseen() -> None:
    assert found(b"opentalos_session=x", authorization=b"Basic eDp5") is None


def test_what_comes_after_many_cookies_is_not_read() -> None:
    assert found(b"a=b; " * 1_000 + b"opentalos_session=x") is None
