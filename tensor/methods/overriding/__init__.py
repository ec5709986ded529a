"""``__torch_function__``: classes and modes that take over calls of functions and methods.

===================  ==================================================================================================
``protocol``         which arguments override, who is asked in which order, modes, and what turns them off
``interception``     how public functions come to ask: on demand, so that plain tensors never pay for it
===================  ==================================================================================================
"""
