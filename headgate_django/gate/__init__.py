"""Admission: given the fleet's policies and my free capacity, what may I run?"""
