"""Faulty stores in simulated memory."""
