"""How records become batches: reading, sharding, shuffling, parsing and transforming TFRecords."""
