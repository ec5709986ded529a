"""Ways into the simulator for code that knows nothing of this project.

===============  =======================================================================
``running``      one kernel on NumPy arrays: :func:`drv.simulator.run`
``values``       what a NumPy array, a number or a structure is as a kernel's parameter
===============  =======================================================================
"""
