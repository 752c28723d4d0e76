"""Analyzes records and writes a first feature spec: the work of `run.py --mode=analyze`.

    wire, protobuf_records      turn serialized records with any features into arrays
    values, numbers, summary    turn arrays into counts, moments and sketches that can be merged
    scan                        read files in several processes or with Apache Beam into one summary
    row_sample                  keep single values of some rows, with the label
    value_kinds, leaks          decide what values are, and which features give a label away
    columns, labels       choose the entries of a spec from statistics, each with its reason
    spec_text, vocabularies, folder    write the files, all of them or none
    distances, drift            measure how far apart two sets of statistics are
    first_spec, refresh         the two commands for users

This file imports nothing, so each part can be used separately.
"""
