"""Option values of the form NAME=VALUE."""

import click


def pair_of(text: str, option: str, form: str) -> tuple[str, str]:
    """Split NAME=VALUE. Raises: click.BadParameter: names the option and the form."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not {form}", param_hint=option)
    return name, value
