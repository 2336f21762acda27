"""The scheduling framework: extension points, their runtime, one pod's cycle, nominator, queue."""
