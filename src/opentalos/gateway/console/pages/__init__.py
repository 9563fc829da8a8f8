"""The pages, by what they show, and the table of all."""
