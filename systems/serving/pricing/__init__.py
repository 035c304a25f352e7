"""Prices of iterations on a device, time and energy: simulated, or interpolated between simulated sample points."""
