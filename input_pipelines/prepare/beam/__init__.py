"""Apache Beam: pieces of work on many machines."""
