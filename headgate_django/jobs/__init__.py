"""What people declare: handlers, their options, their upcasters; and what a running handler sees."""
