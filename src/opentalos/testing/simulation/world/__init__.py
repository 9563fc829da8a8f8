"""Simulated servers, their network and the faults that happen to them."""
