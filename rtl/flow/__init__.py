"""The tool flow behind `pimloom rtl`: simulators, proofs, synthesis."""
