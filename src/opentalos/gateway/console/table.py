"""The table of pages: finds the page of a path."""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from opentalos.gateway.console.page import Page, Who
from opentalos.gateway.console.pages import overview, series
from opentalos.gateway.console.pages.bill import bills, invoice, usage
from opentalos.gateway.console.pages.cluster import servers
from opentalos.gateway.console.pages.group import detail as group_detail
from opentalos.gateway.console.pages.group import groups
from opentalos.gateway.console.pages.table import detail as table_detail
from opentalos.gateway.console.pages.table import rows, streams, tables
from opentalos.gateway.console.pages.tenant import audit, encryption, principals, quotas
from opentalos.gateway.console.pages.topic import detail, messages, produce, tail, topics

# In the order of the menu.
PAGES: Sequence[Page] = (
    *overview.PAGES,
    *topics.PAGES,
    *detail.PAGES,
    *messages.PAGES,
    *tail.PAGES,
    *produce.PAGES,
    *groups.PAGES,
    *group_detail.PAGES,
    *tables.PAGES,
    *table_detail.PAGES,
    *rows.PAGES,
    *streams.PAGES,
    *bills.PAGES,
    *invoice.PAGES,
    *usage.PAGES,
    *quotas.PAGES,
    *servers.PAGES,
    *principals.PAGES,
    *audit.PAGES,
    *encryption.PAGES,
    *series.PAGES,
)
PATH_PARTS_MAX = 8
PART_CHARS_MAX = 400


def find(path: str) -> tuple[Page, Mapping[str, str]] | None:
    """The page of a path below the root, as the browser sent it, and its variable parts."""
    parts = path.split("/")
    if len(parts) > PATH_PARTS_MAX:
        return None
    try:
        decoded = [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        return None
    if any(len(part) > PART_CHARS_MAX for part in decoded):
        return None
    for page in PAGES:  # fixed names precede variable parts where both fit
        places = _fit(page.path.split("/"), decoded)
        if places is not None:
            return page, places
    return None


def menu(who: Who) -> Sequence[Page]:
    """The pages of the menu that the caller is shown."""
    return [page for page in PAGES if page.menu and who.role in page.roles]


def _fit(pattern: Sequence[str], parts: Sequence[str]) -> Mapping[str, str] | None:
    if len(pattern) != len(parts):
        return None
    places: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            places[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return places
