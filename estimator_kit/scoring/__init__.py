"""Predictions and metrics of an export: `--mode=predict` and `--mode=evaluate --export_dir`.

    export             the SavedModel: its signature, its outputs, its spec
    prediction         predictions in one output (--predict_output)
    plan               the output file of each input file, and what a restart must have in common
    rows               TFRecords, or a table with the export's spec -> batches of serialized records
    outputs            predictions and kept columns -> TFRecord, CSV, JSON lines or Parquet
    work               predicts one file, in a separate process
    scoring            predictions in a folder (--predict_dir): runs all of these
    export_evaluation  the metrics of an export
    request_logs       the records and the answers of logged requests, for monitoring and the gate

With `--predict_dir`, each input file gets one output file of the same kind, with one row for each
row, in the same order. The processes, the output folder, its manifest and the restart after a kill
come from `input_pipelines/prepare/convert`. Trains nothing. Only `prediction` reads a checkpoint.
"""
