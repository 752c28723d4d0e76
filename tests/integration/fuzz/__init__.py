"""Random command lines over random inputs, for `tests/integration/test_fuzz.py`.

    start          the files that cases start with, made once
    draws          random values, and damage to bytes and documents
    flags, specs, records, tables, tf_configs, checkpoints
                   one kind of input each: `draw(rng, place) -> Drawn`
    cases          makes a case from its seed and number, and judges how it ended
    child          a process that runs one case after another
    batches        starts such processes, and notices signals and hangs

A case depends only on its seed and number, so it can be run again alone.
"""
