"""A cluster in motion: controllers, evictions and the scheduler act in turn, until nothing moves.

`controllers` are pure functions from the wanted and the observed state to actions; `loop` calls them, lets the
scheduler decide about pending pods, and carries out the actions. Time is virtual, and passes only while something
waits.
"""
