"""Says what a script does with its time: ``python -m tools.profile [options] script.py [arguments]``.

On the simulated driver, times of devices are modelled. ``docs/profiling.md`` is the guide.
"""
