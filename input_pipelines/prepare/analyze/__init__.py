"""Analysis of records into a first feature spec: what `run.py --mode=analyze` does.

    wire, protobuf_records      serialized records -> arrays, whatever their features
    values, numbers, summary    arrays -> counts, moments and sketches that merge
    scan          files -> one summary, spread over processes
    beam_pipeline, summary_json        the same pass, spread by Apache Beam
    columns, labels, sizes      statistics -> entries of a spec, each with its reason
    spec_text, vocabularies, folder    entries -> files, whole or not at all
    distances, drift            two sets of statistics -> how far apart they are
    first_spec, refresh         the two things that a user asks for

Names nothing itself and imports nothing, so that a part can be used without the others.
"""
