"""Files of pages are kept by browsers for good, at URLs that name their content."""

import gzip
from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.static_files import FOLDER, file_url


@pytest.fixture
async def stranger() -> AsyncIterator[Browser]:
    async with browser() as root:
        yield Browser(root.rest, root.console)


async def test_a_file_needs_no_login_and_is_kept(stranger: Browser) -> None:
    reply = await stranger.get(file_url("console.css"))
    assert reply.status == 200
    assert "max-age=31536000, immutable" in reply.lines
    assert "text/css" in reply.lines
    assert "nosniff" in reply.lines
    assert reply.text == (FOLDER / "console.css").read_text()
    coded = await stranger.get(file_url("console.css"), accept_encoding="br, gzip")
    assert "Content-Encoding: gzip\r\n" in coded.lines


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/console.css",
        "/console/static/console.000000000000.css",
        "/console/static/../drawing.py",
        "/console/static/vendored/htmx-LICENSE.txt",
        "/console/static/",
    ],
)
async def test_nothing_else_is_served(stranger: Browser, path: str) -> None:
    reply = await stranger.get(path)
    assert reply.status == 404
    assert "immutable" not in reply.lines


def test_compressed_files_are_the_same() -> None:
    from opentalos.gateway.console.static_files import _files

    for file in _files().values():
        assert gzip.decompress(file.compressed) == file.content
