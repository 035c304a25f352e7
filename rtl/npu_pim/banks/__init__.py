"""Banks with two row buffers, PIM units and the vector buffer of a channel."""
