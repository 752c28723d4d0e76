"""`python -m input_pipelines.synthetic`: writes the default data."""

from __future__ import annotations

from input_pipelines.synthetic.impression_log import main

main()
