"""What serving requests gave: a record of iterations, sums over it, limits held, the highest rate that holds them."""
