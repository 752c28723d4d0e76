"""Feature specs from and to the Schema of TensorFlow Metadata, in its text format.

    proto                the message, read and written
    to_spec              a Schema as a first spec, with a comment on every choice
    feature_choices      the rules for one feature
    weighted_features    weighted columns, both ways
    from_spec            a spec as a Schema

Both ways say what they could not take along. Imports nothing itself; needs the extra `metadata`.
"""
