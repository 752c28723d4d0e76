"""Embedding tables: partitions, memory, and tables without a fixed size."""
