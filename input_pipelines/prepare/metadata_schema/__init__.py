"""Converts feature specs from and to the Schema of TensorFlow Metadata, in its text format.

    to_spec              makes a first spec from a Schema, with a comment on every choice
    feature_reading      the file of a Schema; what a spec can take from one feature
    feature_choices      the rules for one feature, and for weighted columns
    from_spec            makes a Schema from a spec

Both directions report what they could not convert. This file imports nothing. The modules need the
extra `metadata`.
"""
