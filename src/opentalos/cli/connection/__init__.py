"""Which server a command talks to, as whom, and what to do when that fails."""
