"""Whether records can be used, and which one broke a run."""
