"""The one access decision and the rules of grants."""
