"""The history checker, one module per subject."""
