"""Charts of query answers: what they show, and how they are drawn."""
