"""For users' tests too: simulation loop, history checker and faulty memory adapters."""
