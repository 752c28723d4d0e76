"""What settings, entries of a spec and parameters of a model change."""
