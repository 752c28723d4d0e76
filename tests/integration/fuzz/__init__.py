"""Random command lines over random inputs, for `tests/integration/test_fuzz.py`.

    start          the files that cases begin with, made once
    draws          random values, and damage to bytes and to documents
    flags, specs, records, tables, tf_configs, checkpoints
                   one kind of input each: `draw(rng, place) -> Drawn`
    cases          a case from its seed and number, and whether it ended as a program should
    child          runs cases one after the other in a process of their own
    batches        starts such processes, and notices a signal and a hang

A case is a function of seed and number alone, so that it can be run again by itself.
"""
