"""Reading of messages, times, confirmations and interrupts."""
