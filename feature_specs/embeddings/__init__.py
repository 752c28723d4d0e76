"""The start values of embedding tables: initializers and files of vectors."""
