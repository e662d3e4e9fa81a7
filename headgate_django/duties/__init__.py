"""Sweeps that run once per fleet, each under a lease of its own."""
