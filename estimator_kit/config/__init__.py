"""Settings: the config of a run, the flags it is made from, and the rules that they keep."""
