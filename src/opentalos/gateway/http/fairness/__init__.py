"""What connections get of what all of them use: turns on the loop, and memory for bodies."""
