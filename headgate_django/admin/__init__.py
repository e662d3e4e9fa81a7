"""Django's admin as the operators' screens."""
