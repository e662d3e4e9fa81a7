"""Pure Python: the law, the envelope, the arithmetic of admission. No Django, no I/O."""
