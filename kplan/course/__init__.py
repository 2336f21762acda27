"""What a change brings about, followed until nothing moves, and the document that is read from it.

`simulation` is the cluster in motion. The modules here carry changes out in it: manifests (`change`), drains and losses
(`drains`), the scheduling queue (`queue_course`), pods in order (`in_order`), all of them in time (`timeline`); and
`report` reads the document. `answers` has the parts of documents, and `odds` asks many times.
"""
