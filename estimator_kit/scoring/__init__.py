"""Predictions of many files by an export: what `--mode=predict --predict_dir` does.

    export      the SavedModel: whose it is, what it answers
    plan        which file becomes which, and what has to be the same at a second start
    rows        TFRecords, or a table by the export's own spec -> batches of serialized records
    outputs     predictions beside columns that are kept -> TFRecord, CSV, JSON lines or Parquet
    work        one file from its first to its last row, in a process of its own
    scoring     all of it

One output file an input file, of the same kind; one row a row, in the same order. Processes, the
output folder, its manifest and going on after a kill are those of
`input_pipelines/prepare/convert`. Trains nothing, and reads no checkpoint.
"""
