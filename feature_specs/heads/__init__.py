"""The heads of a spec, with their losses and metrics."""
