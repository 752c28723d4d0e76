"""Converts tables into sharded TFRecords: the work of `run.py --mode=convert`.

    options         what a user decides
    fields          chooses the features of records from a spec or from the table
    batch_checks    checks the values of a batch before its records are written
    encoding        turns rows into serialized records
    derived_labels  labels that are made from columns
    split           which rows are for evaluation, and a seeded shuffle of all rows
    plan            decides which rows go into which shard before any shard is written
    tasks, spills, processes    the work, spread over the cores or by Apache Beam
    value_checks    whether a table has the columns that flags name, and values fit the spec
    sequences       the work with --sequence_by, by histories_and_windows and sequence_plan
    conversion      the whole conversion, for `estimator_kit.commands.convert`

The contents of a shard depend only on the files and the options. They never depend on the number of
processes, or on how often the conversion was interrupted; see `feature_specs.files.jobs` for the
output folder. Local files are converted without TensorFlow.
"""
