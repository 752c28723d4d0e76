"""The report page of a model directory: numbers, findings, charts, and the page itself."""
