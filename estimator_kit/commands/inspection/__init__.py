"""What `--mode=inspect` says about a model: its parts, its memory, and advice."""
