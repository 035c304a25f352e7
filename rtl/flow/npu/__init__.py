"""The NPU's gates against its cycle model and ordered float32 sums."""
