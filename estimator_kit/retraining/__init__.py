"""Scheduled retraining: cycles, each a sequence of stages that write their outputs to disk.

`cycle` runs the stages in order, and `state` reads and writes their outputs. Each other module does
one part: `window`, `checks`, `vocabularies`, `row_metrics`, `slices`, `gate`, `promotion`,
`retention`, `lineage`, `reproduction`, `report`.
"""
