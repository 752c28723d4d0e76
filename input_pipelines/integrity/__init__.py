"""Checks whether records can be used, and finds the record that stopped a run."""
