"""Writes the reference pages of the documentation site from the code. No TensorFlow.

`pages.py` lists the pages. `tools/docs_hook.py` calls it for each build, and nothing that it writes
is committed. What a page says is written once, in the code: in docstrings, in the help of a setting
or in a table such as `estimator_kit.exit_codes.MEANING`. Packages without TensorFlow are imported;
all other code is read as text, by `source`.
"""
