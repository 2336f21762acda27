"""Actions that remedies and runbooks take: what each changes, disturbs and is called on a command line."""
