"""The small machine's gates against its model: numbers, commands and the clocks of every stage."""
