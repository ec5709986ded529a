"""What is done on a device: what a call queues on a stream, and what a node of a graph does at each launch.

Work is a description and never changes; a change makes another one. So what is queued stays as it was when a graph's
node is given new parameters.
"""
