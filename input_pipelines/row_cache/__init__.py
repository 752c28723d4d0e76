"""Transformed rows on a local disk, for later epochs and later runs: `--input_cache_dir`.

    folder          the cached shards in a folder; their names; the size limit; several runs at once
    shards          packs transformed rows into a few dense tensors, and blocks of them into records
    writer          writes shards in a thread, during a training
    rows            datasets of packed rows: from the cache where they are, or from records
    cache           combines all of this for `input_fns`

A shard is transformed in the first epoch that reads it. Later epochs and runs read it without
parsing records. Rows come in the same order and the same batches as without the cache. The
name of a cached shard depends only on its content. If a shard, a vocabulary, a spec or a version
changes, the name changes too, and the shard is transformed again.

tf.data's `snapshot`, `save` and `cache` store the output of a whole dataset, in its order and under
one name for all files. Runs with other sets of files cannot share them, and reading cannot start in
the middle. So the cache stores each shard as a TFRecord file of serialized blocks of rows, and
tf.data reads it like any other file.
"""
