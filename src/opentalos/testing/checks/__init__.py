"""The checks of the history checker, one module per subject; ``checker`` has their table."""
