"""Draws pages from templates. Everything that comes from data is escaped, without exception."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, Undefined

from opentalos import __version__
from opentalos.gateway.console import shown
from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import View, url
from opentalos.gateway.console.static_files import file_url

FOLDER: Final = Path(__file__).parent / "templates"
_TITLES: Final = {
    403: "Not allowed",
    404: "Not found",
    429: "Too many requests",
    500: "Internal error",
    503: "The server is not available now",
    504: "The server did not answer in time",
}
# What htmx may not do: run text as a script, or write styles and scripts into a page.
_HTMX: Final = {
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    # By default it writes the old element's style on the new one, which the policy forbids.
    "attributesToSettle": [],
    "timeout": 30_000,
}


class Drawing:
    """The templates. Args: server: name of this server, shown on each page."""

    def __init__(self, server: str) -> None:
        self._made = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._made.globals |= {
            "server": server,
            "version": __version__,
            "file_url": file_url,
            "url": url,
            "htmx_config": json.dumps(_HTMX),
            "plural": shown.plural,
            "ago": shown.ago,
            "level": shown.level,
            "machine_time": shown.machine_time,
        }
        self._made.filters |= {
            "number": _optional(shown.number),
            "bytes": _optional(shown.size),
            "duration": _optional(shown.duration),
            "instant": _optional(shown.instant),
            "pieces": shown.pieces,
            "spark_points": shown.spark_points,
        }

    def page(self, view: View, variables: Mapping[str, Any]) -> bytes:
        """A page in its frame, UTF-8."""
        template = self._made.get_template(view.template)
        text = template.render({"view": view, **variables, **view.data})
        return text.encode("utf-8", "replace")

    def login(self, *, reason: str, back: str, theme: str) -> bytes:
        """The form to log in; ``back``: the page to continue with."""
        template = self._made.get_template("login.html")
        text = template.render(reason=reason, back=back, theme=theme)
        return text.encode("utf-8", "replace")

    def ended(self, form: Mapping[str, str], *, field: str, login: str, theme: str) -> bytes:
        """A login ended while a form was filled in; ``form`` is kept in this page."""
        template = self._made.get_template("ended.html")
        text = template.render(form=form, field=field, login=login, theme=theme)
        return text.encode("utf-8", "replace")

    def failure(self, error: RestError, *, again: bool, theme: str) -> bytes:
        """Why there is no page; ``again``: it is asked for again in a moment."""
        title = _TITLES.get(error.status, "This did not work")
        template = self._made.get_template("failure.html")
        text = template.render(error=error, title=title, again=again, theme=theme)
        return text.encode("utf-8", "replace")


def _optional(written: Callable[[Any], str]) -> Callable[[Any], str]:
    """A filter that takes a field that REST left out like one that is null."""
    return lambda value: written(None if isinstance(value, Undefined) else value)
