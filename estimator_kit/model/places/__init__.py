"""Which column owns which place along an axis of a variable."""
