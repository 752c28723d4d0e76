"""Transformed rows on a local disk, for later epochs and later runs: `--input_cache_dir`.

    digests         of the bytes of files, remembered while a file is certainly the same
    fingerprint     what a cached shard is of: the bytes of its file, the spec, the code
    folder          which shards are there; the size limit; runs beside each other
    layout          transformed rows as few dense tensors, and back
    shards          one shard: transformed and written, and read again
    cache           all of it, for `input_fns`

A shard is transformed once, before the first epoch that reads it, and is read from then on without
its records being parsed. Rows come in the same order, to the last batch, as they do without the
cache. A cached shard is found by its content alone: a shard, a vocabulary, a spec or a version that
changed has another name, and is transformed anew.

tf.data's own `snapshot`, `save` and `cache` keep what a dataset gives, in that dataset's order and
under one name for all files. They can neither be shared by runs over other sets of files nor begin
in the middle; so each shard is a TFRecord file of serialized blocks of rows here, which tf.data
reads as it reads any other.
"""
