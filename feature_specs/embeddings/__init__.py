"""Where embedding tables start: initializers and files of vectors."""
