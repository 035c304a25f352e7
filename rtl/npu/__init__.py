"""The NPU: processing elements, systolic arrays, pads of two halves, tile sequencer, vector unit."""
