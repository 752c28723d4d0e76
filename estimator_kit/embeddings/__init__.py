"""Tables of embeddings: partitions, memory, and tables without a fixed size."""
