"""Scheduled retraining: cycles, each a sequence of stages that write their outputs to disk.

cycle.py            one start of the command; cycle_files.py has the files of stages
stages.py           a function for each stage: window.py chooses periods, with facts.py of
                    their files; data_checks.py; vocabularies.py; training_stage.py; gate_stage.py
gate.py             compares candidate and live model; default_gate.py has its conditions
promotion.py        the serving directory; cycle_versions.py says which version is of which cycle
retention.py        removes old cycles and versions
lineage.py          what a model was made from; modes.py rolls back and reproduces
cycle_report.py     the report; notices.py tells of it, cycle_page.py and history_page.py draw
"""
