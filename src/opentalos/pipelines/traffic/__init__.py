"""Past traffic: weights of servers, and days that differ from it."""
