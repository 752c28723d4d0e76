"""The sections of a spec other than features, columns, labels and objectives."""
