"""How the kit writes files: whole, typed, and one process at a time.

`staged` writes a file that appears whole, `documents` typed JSON, `versions` models, and `jobs` and
`shards` the folders that several processes fill. `locks` are on files, and `owners` on folders. It
imports nothing of the kit.
"""
