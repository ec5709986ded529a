"""Ways into the simulator for code that knows nothing of this project.

===============  =======================================================================
``running``      one kernel on NumPy arrays: :func:`drv.simulator.run`
``stand_in``     programs on ``cuda.bindings.driver``: :func:`drv.simulator.stand_in`
``values``       what a NumPy array, a number or a structure is as a kernel's parameter
===============  =======================================================================
"""
