"""TFRecord files: their format, reading, writing, and finding damaged records."""
