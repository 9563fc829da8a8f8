"""Which storage calls run now: commit lanes, background tasks, commit concurrency."""
