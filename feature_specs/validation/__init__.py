"""Checks whether the entries of a spec fit each other."""
