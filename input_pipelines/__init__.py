"""Turns records into batches: reads, shards, shuffles, parses and transforms TFRecords."""
