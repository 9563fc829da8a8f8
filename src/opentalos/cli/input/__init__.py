"""How commands read messages, times, confirmations and interrupts."""
