"""The lake in the format of Delta: the table, how a range is cut, and the files executors write."""
