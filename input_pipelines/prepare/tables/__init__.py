"""Reads tables (Parquet, CSV and JSON lines) in batches of values that a TFRecord can store.

    options         how a CSV file is written, if it differs from the usual form
    library         pyarrow, which is imported when a table is read, and the files that it reads
    table_format    what a format of tables must have; `formats` has one class for each format
    csv_files, csv_stream, text_types    CSV: fields as text, and their types
    json_files, json_texts    JSON lines: blocks of objects, and values as their text
    csv_lines       the start of a CSV file, and the line of a row
    columns, storable    the types that a record can store, and values of any type as one of them
    reader          the files of one table, its columns, and its rows, part by part

A row becomes a record. A null is a missing feature, and a list is a feature with several values. A
column has one type in the whole table, so all types are known before the first row is returned. The
reader never writes anything.

    table = reader.open_table(["a.parquet", "b.parquet"])
    for part in table.parts():
        for rows in reader.read(part):
            rows.batch      # a pyarrow.RecordBatch of up to 8,192 rows
"""
