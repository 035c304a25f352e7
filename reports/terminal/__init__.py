"""Results as a person reads them in a terminal: tables and sentences."""
