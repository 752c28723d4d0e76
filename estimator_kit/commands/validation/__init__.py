"""The checks of `--mode=validate`."""
