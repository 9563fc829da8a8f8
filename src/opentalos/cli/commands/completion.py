"""``talos completion``: completion scripts for shells."""

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    It completes commands and options, and the names of topics, tables and groups if the server
    replies within a second.

    \b
    bash:  eval "$(talos completion bash)"        in ~/.bashrc
    zsh:   eval "$(talos completion zsh)"         in ~/.zshrc
    fish:  talos completion fish | source         in ~/.config/fish/config.fish

    Example: talos completion bash
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click supports all three"
    click.echo(kind(ctx.find_root().command, {}, "talos", "_TALOS_COMPLETE").source())
