"""What moves: controllers, evictions and the scheduler in turn, until nobody has anything to say.

Controllers (`kplan.simulation.controllers`) are pure functions from what is wanted and observed to actions.
`kplan.simulation.loop` asks them, lets the scheduler decide about what is pending, and carries out what they say. Two
assumptions stand behind it: a pod that is bound is ready at once, and a pod that is told to go is gone at once. Time is
virtual and passes only where somebody waits: a pod that backs off, a job between two failures.
"""
