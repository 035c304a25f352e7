"""Where data and work go."""
