"""Pages while the server is away, and when it is back."""

from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.e2e.console.browsing import Login, visitor
from tests.server_process import ROOT_KEY, ServerProcess


def test_an_open_page_says_that_the_server_is_away_and_recovers(
    browser: Browser, tmp_path: Path
) -> None:
    server = ServerProcess(tmp_path, config="[console]\nenabled = true\n").start()
    window = visitor(browser, server.url, Login(ROOT_KEY.key_id, ROOT_KEY.secret))
    try:
        page = window.go("")
        banner = page.locator("#unreachable")
        expect(banner).to_be_hidden()
        server.kill()
        expect(banner).to_be_visible()
        window.picture("unreachable-wide")
        server.start()
        expect(banner).to_be_hidden()
        page.click("nav.menu >> text=Topics")  # the login outlives the restart
        expect(page.locator("h1")).to_have_text("Topics")
    finally:
        window.context.close()
        server.stop()


def test_a_server_has_no_console_unless_it_is_enabled(tmp_path: Path, browser: Browser) -> None:
    server = ServerProcess(tmp_path).start()
    window = visitor(browser, server.url, None)
    try:
        reply = window.page.goto(f"{server.url}/console/")
        assert reply is not None
        assert reply.status == 404
    finally:
        window.context.close()
        server.stop()
