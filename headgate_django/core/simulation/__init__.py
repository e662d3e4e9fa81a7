"""The gate in virtual time: what a policy would do to synthetic jobs, before it is switched on.

The decision is the gate's own (``core.admission`` and below). Only what surrounds it is made up here: jobs that
arrive and run, workers that ask, and a store in memory.
"""
