"""Logs runs to a tracking service such as MLflow: `--tracking`. See `tracker`."""
