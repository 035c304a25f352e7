"""AiM devices: host instructions in, clocks and commands out."""
