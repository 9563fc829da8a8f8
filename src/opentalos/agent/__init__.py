"""The agent of a machine: measurements and pushed values go to the topic __metrics."""
