"""Bearer tokens of an OpenID Connect issuer: its keys over HTTP, its signatures by PyJWT."""
