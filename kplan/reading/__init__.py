"""The reader of all files: snapshots, manifests, configurations, saved reports.

It reads JSON and YAML, plain or gzipped, from files, directories, pipes and standard input. It yields *documents*,
and from them *items* (Kubernetes objects, with lists split into their items)::

    problems: list[Problem] = []
    for item in read_items("web.yaml", problems, limits=MANIFESTS):     # objects, one after the other
        pod = item.decode(Pod)                      # typed; DecodeError holds every problem, item.locate places it
        item.value()                                # the object as builtins
        item.line_of("$.spec.replicas")             # the line of any field, as the file has it; or of the name
        item.duplicates()                           # duplicate keys: Duplicate(path, line)
    for document in read_documents(path, problems, limits=SETTINGS, expected="a kubeconfig"):
        document.value(); document.lines.of("$.users[0]"); document.duplicates()
    document = read_document(path, problems, limits=REPORTS, expected="a saved report")  # the only one, or None

What does not parse becomes a :class:`~kplan.errors.Problem` with file, document, line and JSON path, and reading goes
on with the next document, so that all problems are reported at once. The content of a file never raises an error, and
reading always ends: size, nesting, aliases, the number of documents and the unpacked size of gzip files are limited
(:class:`Limits`), and devices are refused.

Documents that are empty or hold comments only are not counted. Lines are computed on demand, from the document's text,
so that they cost nothing in a large snapshot.
"""
