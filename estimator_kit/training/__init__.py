"""Training: where it starts and ends, what it reads, and how it comes back."""
