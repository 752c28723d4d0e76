"""Which rows are read, and in what order."""
