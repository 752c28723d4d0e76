"""Reads tables (Parquet, CSV and JSON lines) in batches of values that a TFRecord can store.

    options         how a CSV file is written, if it differs from the usual form
    library, streams    pyarrow, which is imported when a table is read; and files as it reads them
    csv_files, csv_stream, text_types    CSV: fields as text, then the types of whole columns
    csv_start       messages about CSV files in which nothing can be read
    csv_lists                            lists in the fields of CSV files
    json_files, parquet_files    the other kinds of files
    row_places      how messages name a row
    storable        converts columns of any type to int64, float32 or bytes, or lists of these
    narrowing       numbers as the file has them, and as float32
    found_columns, beam_pipeline    the first reading of all files, by threads or Apache Beam
    batches         steps from the batches of a file to the batches of `reader`
    reader          the files of one table, its columns, and its rows, part by part

A row becomes a record. A null is a missing feature, and a list is a feature with several values. A
column has one type in the whole table, so all types are known before the first row is returned. The
reader never writes anything.

    table = reader.open_table(["a.parquet", "b.parquet"])
    for part in table.parts():
        for rows in reader.read(part):
            rows.batch      # a pyarrow.RecordBatch of up to 8,192 rows
"""
