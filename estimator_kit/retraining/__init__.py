"""Scheduled retraining: one cycle after the other, each a row of stages whose outputs are on disk.

`cycle` has the order, `state` what is on disk. Modules of one matter each beside them: `lock`,
`window`, `checks`, `vocabularies`, `row_metrics`, `bootstrap`, `gate`, `promotion`, `retention`,
`lineage`, `reproduction`, `report`.
"""
