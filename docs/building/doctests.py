"""Doctests in docstrings are shown as code: Markdown would take `>>>` for a quotation."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around every example of a docstring."""

    def on_instance(self, *, obj: griffe.Object, **details: Any) -> None:
        """Called for every class, function and attribute that is read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring whose examples, each up to the next empty line, are fenced."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>> ") else paragraph
        for paragraph in paragraphs
    )
