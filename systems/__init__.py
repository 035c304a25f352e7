"""Systems composed of the rooms below: devices, memory, fabrics, serving."""
