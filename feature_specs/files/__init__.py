"""How the kit writes files: `staged` for a file that appears whole, `locks` for folders in use.

It imports nothing of the kit.
"""
