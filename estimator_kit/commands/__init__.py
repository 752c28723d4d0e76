"""What each `--mode` does."""
