"""Processes, threads and signals. No SQL: the worker asks the rooms below it."""
