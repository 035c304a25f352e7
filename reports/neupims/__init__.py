"""The NeuPIMs study: throughput, ablation, departures and a timeline beside the published values."""
