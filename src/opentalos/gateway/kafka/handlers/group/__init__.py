"""Consumer groups: members, positions, and what tools ask about them."""
