"""From serialized records to what a model gathers from."""
