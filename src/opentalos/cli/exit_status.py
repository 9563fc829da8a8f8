"""Exit statuses of the command; 2, a usage error, is set by click."""

from typing import Final

EXIT_FAILURE: Final = 1  # the command is valid and failed
EXIT_INTERRUPTED: Final = 130  # as a shell reports Ctrl-C
