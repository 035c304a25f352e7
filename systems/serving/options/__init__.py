"""What a user may ask of a served system: schedulers by name, prices, and what would change nothing."""
