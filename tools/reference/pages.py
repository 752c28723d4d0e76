"""The pages of the reference: where each is in the site, and the function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.reference import api, meaning, models, program, serving, spec

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/spec.md": spec.spec_page,
    "reference/columns.md": spec.columns_page,
    "reference/objectives.md": spec.heads_page,
    "reference/flags.md": program.flags_page,
    "reference/models.md": models.models_page,
    "reference/model_parameters.md": models.parameters_page,
    "reference/exit_statuses.md": program.exit_statuses_page,
    "reference/files.md": program.files_page,
    "reference/python.md": api.api_page,
    "reference/client.md": api.client_page,
    "reference/http.md": serving.serving_page,
    "how_it_works/meaning.md": meaning.meaning_page,
}
