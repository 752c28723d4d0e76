"""Session hooks: progress, and stopping for a reason."""
