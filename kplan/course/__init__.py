"""What a change brings about, followed until nothing moves, and the document that is read from it.

A `task.Task` is a value: changes, and how they are carried out; `carry_out` does that, whatever the changes are and
whether there is a clock, in `simulation`, the cluster in motion, from its `beginning`. `carried_out` is what came of
it, and `report` reads the document: `pairing` says which pods take the place of which, `replacements` what of that
counts, `timeline` when all happens, and `at_present` what was wrong before. `in_order` places pods in order,
`queue_course` works the scheduling queue off, also with pods that arrive in waves, and `manifest_course` applies
manifests one after the other. `what_if` changes the cluster on paper, with `edits`, in which no controller takes part,
and `resizing`, which gives pods the recommended requests. `growth` has the nodes that an autoscaler adds, `unblocking`
tries what would let a change go on, `answers` has the parts of documents, and `odds` carries a task out many times.
"""
