"""One channel of PIM DRAM behind one controller: reads and writes and PIM commands compete for its buses and banks."""
