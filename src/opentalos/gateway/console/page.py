"""Pages: what one row of the table of pages says, and what its functions get and return."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from opentalos.gateway.console.calls import RestCalls
from opentalos.model.settings.console import ConsoleSettings

ROOT: Final = "/console/"
VALUE_CHARS_MAX: Final = 4_000  # of one value of a query
LONG_TEXT_CHARS_MAX: Final = 1 << 20  # of one field of a form

ADMINISTRATOR: Final = "administrator"
EVERYBODY: Final = frozenset({"user", "viewer", "operator", "billing", "agent", ADMINISTRATOR})
READERS: Final = frozenset({"viewer", "billing", "agent"})  # who change nothing of their own
LOOKERS: Final = frozenset({"viewer", "operator", ADMINISTRATOR})  # who see the whole service


@dataclass(frozen=True, slots=True)
class Who:
    """The caller, as ``GET session`` of REST describes it."""

    id: str
    organisation: str
    team: str
    role: str
    ends_ms: int = 0  # of the session, Unix; 0: there is none

    @property
    def owner(self) -> str:
        """Owner of what the caller creates."""
        return self.organisation or self.id

    @property
    def administers(self) -> bool:
        """Whether it may do everything in the whole service."""
        return self.role == ADMINISTRATOR

    @property
    def changes(self) -> bool:
        """Whether it may change things of its own, so that forms are of use."""
        return self.role not in READERS

    @property
    def looks(self) -> bool:
        """Whether it sees the servers and all tenants."""
        return self.role in LOOKERS


class Query:
    """The state of a page, which is all in its URL. A value that is no good counts as absent."""

    def __init__(self, path: str, pairs: Mapping[str, str]) -> None:
        self.path, self.pairs = path, pairs

    def text(self, name: str, default: str = "") -> str:
        """A value without spaces around it."""
        return self.pairs.get(name, default).strip()[:VALUE_CHARS_MAX]

    def integer(self, name: str, default: int, least: int = 0, most: int = 1 << 53) -> int:
        """A number within bounds."""
        sent = self.text(name)
        if not sent.isascii() or not sent.removeprefix("-").isdigit() or len(sent) > 20:
            return default
        return min(max(int(sent), least), most)

    def choice(self, name: str, allowed: Sequence[str], default: str = "") -> str:
        """One of the allowed values; the default is the first one unless it is given."""
        sent = self.text(name)
        return sent if sent in allowed else default or allowed[0]

    def link(self, **changes: str | int | None) -> str:
        """The URL of this page with other values; None removes one."""
        pairs: dict[str, str | int | None] = {**self.pairs, **changes}
        kept = {name: value for name, value in pairs.items() if value not in (None, "")}
        return self.path + ("?" + urlencode(kept) if kept else "")


@dataclass(slots=True)
class Visit:
    """One request for a page.

    Attributes: places: the variable parts of the path, decoded; form: what a form sent; failure:
    why that was rejected, for the page that shows the form again; now_ms: Unix time.
    """

    rest: RestCalls
    who: Who
    query: Query
    places: Mapping[str, str]
    now_ms: int
    settings: ConsoleSettings
    form: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    def number(self, name: str) -> int | None:
        """A number of the form; None: the field is empty or no number, which REST then rejects."""
        sent = self.form.get(name, "").strip().replace(",", "")
        return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 20 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page to draw.

    Args: template: below ``templates``; data: its variables; cli: commands that show the same;
    refresh_s: the part with the id ``live`` is read again so often; 0: never.
    """

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)
    cli: Sequence[str] = ()
    refresh_s: int = 0
    status: int = 200
    trail: Sequence[tuple[str, str]] = ()  # (title, URL) of the pages above this one

    def with_status(self, status: int) -> "View":
        """The same page with another status of the reply."""
        return replace(self, status=status)


class Data(NamedTuple):
    """JSON for a script of a page, such as the series of a chart."""

    document: Any


class Done(NamedTuple):
    """What a form asked for is done: go to a page, which says so."""

    path: str
    notice: str


Shown = View | Data
Show = Callable[[Visit], Awaitable[Shown]]
Change = Callable[[Visit], Awaitable[Shown | Done]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One row of the table of pages.

    Args: path: below ``/console/``, with ``{name}`` for a variable part; show: for GET; change: for
    POST, None: the page has no form; menu: its text in the menu, empty: not there; roles: who is
    shown the page. REST decides what a caller may do; the roles only hide what it would refuse.
    """

    path: str
    show: Show
    change: Change | None = None
    menu: str = ""
    roles: frozenset[str] = EVERYBODY


def url(*parts: str, **query: str | int | None) -> str:
    """The URL of a page from parts of its path that are not encoded."""
    kept = {name: value for name, value in query.items() if value not in (None, "")}
    path = ROOT + "/".join(quote(part, safe="") for part in parts)
    return path + ("?" + urlencode(kept) if kept else "")
