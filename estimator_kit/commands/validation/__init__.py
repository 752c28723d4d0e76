"""What `--mode=validate` looks at."""
