"""The answers of kplan as typed structs; JSON and YAML are their encoding, and the JSON Schemas are made from them.

Conventions:

- Attributes are the JSON names in snake case. A field that may be null is ``X | None``; one that may be absent is
  ``X | UnsetType = UNSET``; every other field always stands in the document.
- Docstrings of classes become the descriptions of the schema, and so do the comments of fields that begin with ``#:``,
  behind the field or above it. Above, several fields are named that have something in common: ``#: first, second: …``.
  What a struct says anew of fields that it inherits are lines of ``Attributes`` in its docstring.
- Structs hold facts. Sentences about them are made where they are shown, in `kplan.report`, and never parsed again;
  only what Kubernetes itself writes (messages, reasons) is text here.
- A minor of the format adds fields only, so a new field of an existing struct has a default that stands for reports
  written before it.

A report is a module here with a struct that inherits `Report` and is named like its kind; the line of its question in
`kplan.catalogue` names it, and the view that shows it. `kplan schema KIND` and `kplan show` know it from then on.
"""
