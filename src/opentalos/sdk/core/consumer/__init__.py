"""One worker's decisions: settings, balance, what it holds and delivers; no I/O."""
