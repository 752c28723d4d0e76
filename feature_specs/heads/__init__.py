"""The heads that a spec can choose, with their losses and metrics."""
