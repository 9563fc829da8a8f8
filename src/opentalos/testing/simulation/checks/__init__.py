"""The history checker: one module per subject, ``checker`` runs them all."""
