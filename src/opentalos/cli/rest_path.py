"""Paths of REST."""

from urllib.parse import quote


def rest_path(*parts: str) -> str:
    """A path below the base; each part may be any text."""
    return "/".join(quote(part, safe="") for part in parts)
