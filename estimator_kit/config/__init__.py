"""The config of a run, the flags that it is made from, and the rules for settings."""
