"""The cluster as columns: node table, pod table, deltas, verdicts, Go's arithmetic. No scheduler rules."""
