"""Files around a simulated memory: request traces in; logs, timelines and tables out."""
