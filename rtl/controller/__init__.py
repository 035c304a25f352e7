"""The parts of the command core behind AXI4-Lite: admission of commands, moments, refresh, power-up, phases, data."""
