"""[console]: the pages for people."""

from dataclasses import dataclass

from opentalos.model.limits import need

MASKED_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """[console] The web pages below /console/, for callers of REST who use a browser."""

    enabled: bool = False
    masked_fields: str = ""  # JSON fields whose values pages hide, such as password,card_number
    pages_max: int = 60  # made at the same time, whole server; some are kept for administrators

    def __post_init__(self) -> None:
        need(
            len(self.masked_fields) <= MASKED_CHARS_MAX,
            f"masked_fields has more than {MASKED_CHARS_MAX} characters",
        )
        need(2 <= self.pages_max <= 10_000, "need 2 <= pages_max <= 10000")
