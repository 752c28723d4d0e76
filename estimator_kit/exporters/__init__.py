"""When a SavedModel is written, and which ones are kept."""
