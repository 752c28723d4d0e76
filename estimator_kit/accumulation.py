"""Gradients of several batches added up before a step is taken."""

# Begins the names of the variables that hold them.
ACCUMULATED = "accumulated/"
