"""Everything that kplan reads from outside comes through here: snapshots, manifests, configurations, saved reports.

One reader for JSON and YAML, plain or gzipped, from files, directories, pipes and standard input. It gives *documents*,
and from them *items* (Kubernetes objects, lists taken apart)::

    problems: list[Problem] = []
    for item in read_items("web.yaml", problems, limits=MANIFESTS):     # objects, one after the other
        pod = item.decode(Pod)                      # typed; DecodeError holds every problem, item.locate places it
        item.value()                                # the same as builtins
        item.source()                               # Source(file, document, line) of the object's name
        item.line_of("$.spec.replicas")             # the line of any field, as the file has it
        item.duplicates()                           # keys that stand twice: Duplicate(path, line)
    for document in read_documents(path, problems, limits=SETTINGS, expected="a kubeconfig"):
        document.value(); document.lines.of("$.users[0]"); document.duplicates()
    document = read_one(path, problems, limits=REPORTS, expected="a saved report")  # the only one, or None

What cannot be read becomes a :class:`~kplan.errors.Problem` with file, document, line and JSON path, and reading goes
on with the next document, so that everything wrong is known at once. Nothing is raised for what stands in a file, and
whatever a file holds, reading it ends: size, nesting, aliases, the number of documents and what gzip unfolds to have
bounds (:class:`Limits`), and devices are refused.

Documents are counted as people count them: what is empty or holds comments only has no number. Lines are looked up when
somebody asks, by reading the document's text again, so that a large snapshot pays nothing for them.
"""

from kplan.reading.content import Document, as_builtins
from kplan.reading.documents import read_documents, read_one
from kplan.reading.files import STANDARD_INPUT
from kplan.reading.items import Item, read_items
from kplan.reading.limits import MANIFESTS, REPORTS, SETTINGS, SNAPSHOTS, Limits, Progress
from kplan.reading.places import Duplicate, Lines, Source

__all__ = [
    "MANIFESTS",
    "REPORTS",
    "SETTINGS",
    "SNAPSHOTS",
    "STANDARD_INPUT",
    "Document",
    "Duplicate",
    "Item",
    "Limits",
    "Lines",
    "Progress",
    "Source",
    "as_builtins",
    "read_documents",
    "read_items",
    "read_one",
]
