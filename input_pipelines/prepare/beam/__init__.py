"""Apache Beam: spreads pieces of work over many machines."""
