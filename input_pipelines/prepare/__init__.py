"""What is done with data before training."""
