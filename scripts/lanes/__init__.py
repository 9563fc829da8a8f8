"""How test lanes run: what jobs are, which of them run, what they report."""
