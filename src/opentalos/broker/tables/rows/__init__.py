"""Groups of mutations as reads and writes of rows: what a row becomes, and its one write."""
