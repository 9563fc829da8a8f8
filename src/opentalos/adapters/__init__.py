"""The ports on the world: memory, local disk and SQLite; one sub-package each."""
