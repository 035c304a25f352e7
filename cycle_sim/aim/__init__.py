"""AiM: host instructions, the DMA that hands them to channels, and the controller of each channel."""
