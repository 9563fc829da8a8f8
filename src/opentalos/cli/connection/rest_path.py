"""Paths of REST requests."""

from urllib.parse import quote


def rest_path(*parts: str) -> str:
    """Join parts into a path below the base URL; each part may be any text."""
    return "/".join(quote(part, safe="") for part in parts)
