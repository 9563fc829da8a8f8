"""What browser tests of the console do with a page: pictures, accessibility, what it complained."""

from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, StorageState, expect
from scripts.fetch_console_assets import FOR_TESTS
from tests import tiers
from tests.waiting import limit_s

PICTURES: Final = Path(__file__).resolve().parents[3] / ".cache" / "pictures" / "console"
WIDE: Final = {"width": 1280, "height": 800}
PHONE: Final = {"width": 390, "height": 844}
SERIOUS: Final = ("serious", "critical")
WAIT_MS: Final = 1_000 * limit_s()  # of whatever a page or an expectation waits for
# Letters and digits that follow each other in a text and are on two lines.
_BROKEN: Final = """() => {
  const found = [], range = document.createRange(), letter = /[\\p{L}\\p{N}]/u;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (text.parentElement.closest('pre, footer, .hidden, .skip, noscript')) continue;
    range.selectNodeContents(text);
    if (range.getClientRects().length < 2) continue;
    for (let place = 0, above = null; place < text.length; place += 1) {
      range.setStart(text, place);
      range.setEnd(text, place + 1);
      const box = letter.test(text.data[place]) ? range.getBoundingClientRect() : null;
      if (box && above && box.top > above.top + above.height / 2) {
        found.push(`${text.data.slice(0, place)}|${text.data.slice(place)}`);
      }
      above = box;
    }
  }
  return found;
}"""
# axe runs as a script of the page, which the policy of the page would not allow.
_AXE: Final = "async () => (await axe.run({resultTypes: ['violations']})).violations"

_LOGINS: dict[tuple[Any, ...], StorageState] = {}  # by server, user and kind of device

# Playwright's own 5 s is what a page waits between two refreshes.
expect.set_options(timeout=WAIT_MS)


@dataclass(frozen=True)
class Look:
    """How a window shows a page; ``options`` are those of ``visitor``."""

    phone: bool
    scheme: str

    @property
    def options(self) -> dict[str, Any]:
        small = {"viewport": PHONE, "is_mobile": True, "has_touch": True} if self.phone else {}
        return {"color_scheme": self.scheme, **small}

    def __str__(self) -> str:
        return f"{'phone' if self.phone else 'wide'}-{self.scheme}"


BRIGHT: Final = Look(phone=False, scheme="light")
DARK: Final = Look(phone=False, scheme="dark")
NIGHT: Final = Look(phone=True, scheme="dark")
LOOKS: Final = (BRIGHT, NIGHT, DARK, Look(phone=True, scheme="light"))


def each_page(
    *pages: tuple[str, str, str], looks: tuple[Look, ...] = LOOKS
) -> pytest.MarkDecorator:
    """A test of every page, by its name, its path and a text that it shows.

    ``make test-all`` sees each page in all its looks, ``make test`` in one of them by turns.
    """
    cases = [
        pytest.param(*page, look, id=f"{page[0]}-{look}")
        for number, page in enumerate(pages)
        for look in (looks if tiers.WHOLE else looks[number % len(looks) :][:1])
    ]
    return pytest.mark.parametrize(("name", "path", "shown", "look"), cases)


@dataclass(frozen=True)
class Login:
    """A key of one user."""

    key_id: str
    secret: str


@dataclass
class Visitor:
    """A browser window with a login, that keeps what its pages complained about."""

    url: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        """Open a page below /console/."""
        self.page.goto(f"{self.url}/console/{path}")
        return self.page

    def complain(self, text: str) -> None:
        """Keep what no page may do."""
        self.complaints.append(text)

    def note(self, text: str) -> None:
        """A line of the browser's console."""
        if "Content Security Policy" in text or "Uncaught" in text:
            self.complain(text)

    def refuse(self, dialog: Dialog) -> None:
        """No page opens dialogs, other than by a script from a message."""
        self.complain(f"dialog: {dialog.message}")
        dialog.dismiss()

    def picture(self, name: str) -> None:
        """Keep a picture of the whole page in .cache/pictures/console, with its charts."""
        self.page.wait_for_function("() => !document.querySelector('[data-chart]:empty')")
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)

    def violations(self) -> list[str]:
        """Serious violations of accessibility by the page that is shown, as axe-core finds them."""
        source = (FOR_TESTS / "axe.min.js").read_text()
        self.page.evaluate(f"() => {{ {source} }}")
        found: list[dict[str, Any]] = self.page.evaluate(_AXE)
        return [
            f"{rule['id']}: {node['html']} {node['failureSummary']}"
            for rule in found
            if rule["impact"] in SERIOUS
            for node in rule["nodes"]
        ]

    def check_whole(self, name: str) -> None:
        """Keep a picture of the page; it is accessible and nothing of it is cut."""
        self.picture(name)
        assert self.violations() == []
        assert self.cut_columns() == []
        assert self.sideways() == 0

    def cut_columns(self) -> list[str]:
        """Elements that lie beyond the right edge of the window, so that it has to be scrolled.

        A phone shows a page that is too wide smaller, so that ``innerWidth`` is that of the page.
        """
        found: list[str] = self.page.evaluate(
            "(width) => [...document.querySelectorAll('body *')].filter((element) => "
            "!element.closest('.heat, .hidden, .skip, pre, thead') && "
            "element.getBoundingClientRect().right > width + 1)"
            ".map((element) => element.outerHTML.slice(0, 120))",
            self._width,
        )
        return found

    def sideways(self) -> int:
        """By how many CSS pixels the page is wider than its window."""
        width: int = self.page.evaluate("() => document.scrollingElement.scrollWidth")
        return max(0, width - self._width)

    def broken_words(self) -> list[str]:
        """Texts with a line that ends inside a word, which is marked; other than what messages
        contain, and the calls at the foot."""
        found: list[str] = self.page.evaluate(_BROKEN)
        return found

    @property
    def _width(self) -> int:
        size = self.page.viewport_size
        assert size is not None
        return size["width"]


def visitor(browser: Browser, url: str, login: Login | None, **options: Any) -> Visitor:
    """A window of its own; options as those of a Playwright context.

    The first one of a user on a kind of device logs in by the form, others have its session.
    """
    kind = (url, login, options.get("is_mobile"), options.get("color_scheme"))
    known = {"storage_state": _LOGINS[kind]} if kind in _LOGINS else {}
    context = browser.new_context(**{"viewport": WIDE, "locale": "en-US", **known, **options})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    made = Visitor(url, context, page)
    page.on("pageerror", lambda error: made.complain(f"error: {error}"))
    page.on("dialog", made.refuse)
    page.on("console", lambda line: made.note(line.text))
    if login is not None and not (known and _is_open(context, url)):
        page.goto(f"{url}/console/login")
        page.fill("#key_id", login.key_id)
        page.fill("#secret", login.secret)
        page.click("text=Log in")
        page.wait_for_selector("nav.menu")
        _LOGINS[kind] = context.storage_state()
    return made


def _is_open(context: BrowserContext, url: str) -> bool:
    """Whether the window's session lives: no test has ended it, and it is of this server."""
    reply = context.request.get(f"{url}/console/", max_redirects=0)
    reply.dispose()
    return bool(reply.status == HTTPStatus.OK)
