"""The progress and the report of a run, for people."""
