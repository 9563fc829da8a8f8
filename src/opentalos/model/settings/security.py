"""Sections of the configuration file for security: [tls], [auth], [audit] and [encryption]."""

from dataclasses import dataclass

from opentalos.model.checks import choice
from opentalos.model.identity import parse_rules
from opentalos.model.limits import need

# "repeat": the official client signs equal writes of one second alike, and sends them.
_SDS_V1 = ("repeat", "once", "off")


ROTATE_AFTER_S_MIN = 86_400  # a tenant has at most 1,000 versions of its data key


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """[tls] TLS of the port. Files are PEM; changed files are loaded without a restart."""

    cert_file: str = ""  # this server's certificate and its intermediates; empty: plain HTTP
    key_file: str = ""  # the certificate's private key, without a pass phrase
    client_ca_file: str = ""  # if set, clients must present a certificate signed by one of these
    client_optional: bool = False  # true: connections without a certificate are accepted as well
    client_principals: str = ""  # rules such as dns=*.clients.example: who a certificate is
    peer_ca_file: str = (
        ""  # authorities of the other servers' certificates; empty: the system's list
    )
    minimum_version: str = "1.2"  # 1.2 or 1.3
    handshake_timeout_s: float = 10.0  # from the connection to the end of the handshake
    handshakes_max: int = 2_000  # concurrent handshakes; further connections are closed
    reload_interval_s: float = 5.0  # between checks of the files

    def __post_init__(self) -> None:
        both = bool(self.cert_file) == bool(self.key_file)
        need(both, "set both cert_file and key_file, or neither")
        need(bool(self.cert_file) or not self.client_ca_file, "client_ca_file needs cert_file")
        client = "client_optional and client_principals need client_ca_file"
        need(
            bool(self.client_ca_file) or not (self.client_optional or self.client_principals),
            client,
        )
        if self.client_principals:
            parse_rules(self.client_principals)
        need(self.minimum_version in ("1.2", "1.3"), 'minimum_version must be "1.2" or "1.3"')
        need(self.handshake_timeout_s > 0, "need handshake_timeout_s > 0")
        need(self.handshakes_max > 0, "need handshakes_max > 0")
        need(self.reload_interval_s > 0, "need reload_interval_s > 0")

    @property
    def enabled(self) -> bool:
        """Whether the port has TLS."""
        return bool(self.cert_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionSettings:
    """[encryption] Encryption of messages and rows at rest; on if there is a key."""

    key_file: str = ""  # base64 of 32 random bytes, mode 0600: the key that wraps all data keys
    key_command: str = ""  # or a program with arguments, such as of a KMS, that prints it
    other_key_file: str = ""  # a former or next key, which only unwraps
    key_command_timeout_s: float = 10.0  # the start of the server waits for the command so long
    enabled: bool = True  # false: new data is not encrypted, encrypted data stays readable
    rotate_after_s: float = 0.0  # a data key of this age gets a new version; 0: only by command

    def __post_init__(self) -> None:
        need(
            self.rotate_after_s == 0 or self.rotate_after_s >= ROTATE_AFTER_S_MIN,
            f"need rotate_after_s of 0 or at least {ROTATE_AFTER_S_MIN}",
        )
        both = bool(self.key_file) and bool(self.key_command)
        need(not both, "set either key_file or key_command")
        other = bool(self.other_key_file) and not (self.key_file or self.key_command)
        need(not other, "other_key_file needs key_file or key_command")
        need(0 < self.key_command_timeout_s <= 60, "need 0 < key_command_timeout_s <= 60")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """[audit] Changes and denials that this server writes to the topic __audit."""

    enabled: bool = True  # false: they are only logged
    failures_per_s_max: int = 20  # recorded; further ones are only counted
    failing_callers_max: int = 64  # keys and addresses whose failed logins are counted apart
    spool_bytes_max: int = (
        64 << 20
    )  # kept on disk while the topic is unavailable; the oldest are dropped first
    retention_s: int = 90 * 86_400  # of __audit at creation
    retention_bytes: int = 1 << 30  # of __audit at creation; 0: no limit

    def __post_init__(self) -> None:
        need(self.failures_per_s_max > 0, "need failures_per_s_max > 0")
        need(self.failing_callers_max > 0, "need failing_callers_max > 0")
        need(self.spool_bytes_max >= 1 << 20, "need spool_bytes_max >= 1 MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthLimits:
    """[auth] Authentication of requests."""

    clock_skew_max_s: int = 900  # the Go and Python clients never correct for clock skew
    anonymous: bool = False  # true: unsigned Guest requests act as the guest principal
    denial_log_per_s_max: int = 20  # audit log lines; further denials are only counted
    failures_max: int = 50  # wrong secrets of a key from one address, then they must wait
    failures_per_s: float = 1.0  # further ones after that
    secrets_over_http: bool = False  # true: secrets, Attached-Info without TLS from anywhere
    key_use_interval_s: float = 600.0  # between writes of when keys were last used
    session_s: float = 43_200.0  # a login lasts this long at most
    session_idle_s: float = 1_800.0  # and ends when unused for this long
    sds_v1: str = "repeat"  # JSON header of SDS clients: repeat, a write once, or off
    seal_principals_again: bool = False  # true: for one start after an older version ran
    # Without a signed copy: as secrets, over TLS or from this machine.
    attached_info_signed: bool = False  # true: Attached-Info always needs a signed copy

    def __post_init__(self) -> None:
        try:
            choice(self.sds_v1, _SDS_V1)
        except ValueError as error:
            raise ValueError(f"sds_v1 {error}") from error
        need(self.clock_skew_max_s > 0, "need clock_skew_max_s > 0")
        need(self.failures_max > 0, "need failures_max > 0")
        need(self.failures_per_s > 0, "need failures_per_s > 0")
        need(self.key_use_interval_s >= 1, "need key_use_interval_s >= 1")
        need(self.session_idle_s >= 60, "need session_idle_s >= 60")
        need(self.session_s >= self.session_idle_s, "session_s must be at least session_idle_s")
