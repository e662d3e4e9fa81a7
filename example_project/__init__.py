"""A small web shop that shows the queue at work: ``python manage.py demo``."""
