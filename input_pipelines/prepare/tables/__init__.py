"""Tables as records: Parquet, CSV and JSON lines, read in batches of what a TFRecord can hold.

    kinds           what kind of file a name says
    options         how a CSV file is written, where that is not the usual way
    library, streams    pyarrow, imported when a table is read; and files as it reads them
    csv_files, csv_stream, text_types    CSV: fields as text, then the types of whole columns
    json_files, parquet_files    the other two
    row_places      how messages name a row
    storable        columns of any type -> int64, float32 and bytes, one or a list of them a row
    found_columns, beam_pipeline    a first look through all files, by threads or Apache Beam
    reader          the files of one table, its columns, and its rows, part by part

A row is a record: a null is a missing feature, a list a feature of several values. Types hold for
the whole table, so every column has one before the first row is given out. Writes nothing.

    table = reader.open_table(["a.parquet", "b.parquet"])
    for part in table.parts():
        for rows in reader.read(part):
            rows.batch      # a pyarrow.RecordBatch of up to 8,192 rows
"""
