"""A cluster in motion: controllers, evictions and the scheduler act in turn, until nothing moves.

`loop.Simulation` is the cluster as it is now (`motion.Motion`, with its log, its queue and its timers) and the parts
that change it: `life`, what happens to pods (`LifeCycle`); `kubelets`, which start and end them in their time;
`controllers`, which compare what workloads want with what they have (`syncs.Controllers`; the package `controllers`
has their rules, as pure functions); `scheduler`; `groups`, the pods that are scheduled together; and
`node_lifecycle`, which has pods leave tainted nodes by `taint_evictions`. Time is virtual. It passes only while
something waits, and without durations every delay is zero.
"""
