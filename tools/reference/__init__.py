"""Writes the reference pages of the documentation site that are tables of the code's declarations.

`pages.py` lists the pages. `tools/docs_hook.py` calls it for each build, and nothing that it writes
is committed. What a page says is written once, in the code: in docstrings, in the help of a setting
or in a table such as `estimator_kit.exit_codes.MEANING`. The other pages of the reference are in
`docs/reference`; there, mkdocstrings shows the docstrings of the public names.
"""
