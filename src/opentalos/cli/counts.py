"""Numbers with their unit in the right form."""


def counted(number: int, noun: str) -> str:
    """``1 partition``, ``2 partitions``; the noun takes a plain ``s``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
