"""What a model asks of a machine: its operators, made in one place, and what they need."""
