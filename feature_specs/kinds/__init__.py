"""The column kinds of a spec."""
