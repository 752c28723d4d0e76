"""Conversion of tables into sharded TFRecords: what `run.py --mode=convert` does.

    options         what a user decides
    fields          columns -> features of records, as a spec or the table says
    encoding, framing       rows -> serialized records -> bytes of a TFRecord file
    split, row_order        which rows are for evaluation; a seeded shuffle of all rows
    plan            which rows make which shard, before the first one is written
    tasks, shard_files, spills, processes       the work, spread over the cores
    beam_pipeline   the same work, spread by Apache Beam
    folder          the output folder: whose it is, what is done, manifest and success
    conversion      all of it, for `estimator_kit.commands.convert`

What a shard holds depends on the files and the options alone, never on the number of processes or
on how often the conversion was stopped. Files at local paths are converted without TensorFlow.
"""
