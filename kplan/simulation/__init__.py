"""What changes over time: controllers, evictions and the scheduler act in turn, until nothing moves.

Controllers (`kplan.simulation.controllers`) are pure functions from the wanted and the observed state to actions.
`kplan.simulation.loop` calls them, lets the scheduler decide about pending pods, and carries out the actions. Two
assumptions: a pod is ready as soon as it is bound, and gone as soon as it is deleted. Time is virtual and passes only
while something waits: a pod that backs off, a job between two failures.
"""
