"""Certificates for tests, made on the spot."""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import trustme


@dataclass
class TlsFolder:
    """One authority, and the files of a server and of a client that it signed."""

    path: Path
    authority: trustme.CA = field(default_factory=trustme.CA)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.renew()

    @property
    def ca(self) -> Path:
        return self.path / "ca.pem"

    @property
    def cert(self) -> Path:
        return self.path / "server.pem"

    @property
    def key(self) -> Path:
        return self.path / "server.key"

    def renew(self, *names: str) -> None:
        """Write another certificate with its key into the server's files."""
        made = self.authority.issue_cert("127.0.0.1", "localhost", *names)
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        for path, content in ((self.cert, chain), (self.key, made.private_key_pem.bytes())):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(path)

    def section(self, **more: object) -> str:
        """[tls] of a configuration file."""
        keys = {"cert_file": str(self.cert), "key_file": str(self.key), **more}
        lines = [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in keys.items()]
        return "\n".join(["[tls]", *lines, ""])

    @staticmethod
    def trust_of(config: str) -> ssl.SSLContext:
        """What a client of a server needs whose configuration has ``section``."""
        (cert,) = re.findall(r'cert_file = "(.*)"', config)
        return ssl.create_default_context(cafile=str(Path(cert).parent / "ca.pem"))

    def trust(self, *, shown: bool = False) -> ssl.SSLContext:
        """What a client of the server uses; ``shown``: it has a certificate of its own."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if shown:
            self.authority.issue_cert("client.example").configure_cert(context)
        return context
