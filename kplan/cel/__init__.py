"""CEL for device selectors: Google's library, with Kubernetes' types and functions.

`values` is all that most need; `expression` compiles, and imports the library when it is first used: few clusters have
devices. `pieces` parts a `tree` into what `library` evaluates and what `functions` computes.
"""
