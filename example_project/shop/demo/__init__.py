"""What ``manage.py demo`` is made of: the jobs it enqueues, the processes it runs, what it shows and checks."""
