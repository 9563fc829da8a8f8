"""Simulated servers on one storage, their clocks and the faults injected into them."""
