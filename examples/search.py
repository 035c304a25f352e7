"""A space too large for a grid: NSGA-II and random points with the same budget.

python examples/search.py
"""

# %% 9 x 5 x 7 x 7 x 5 designs with every clock between: nobody simulates them all.
import pimloom

space = {
    "system": "pim_gpt",
    "workload": {"model": "gpt2", "generate": 4},
    "axes": {
        "dram.channels": {"from": 2, "to": 18, "step": 2},
        "dram.timing.tCCD_L": ["1 ns", "1.5 ns", "2 ns", "3 ns", "4 ns"],
        "npu.multipliers": [16, 32, 64, 128, 256, 512, 1024],
        "npu.adders": [16, 32, 64, 128, 256, 512, 1024],
        "npu.layernorm_passes": {"from": 1, "to": 5, "step": 1},
        "npu.clock_mhz": {"log": [100, 2000]},
    },
    "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
    "budget": 60,
}

# %% The same seed gives the same points, whatever the number of workers.
found = {
    method: pimloom.sweep(space | {"method": method, "batch": 15, "seed": 1}, progress=True)
    for method in ("random", "nsga2")
}

# %% Points of each front that no point of the other method beats.
for method, other in (("random", "nsga2"), ("nsga2", "random")):
    front, rivals = (found[m][found[m]["pareto"]] for m in (method, other))
    unbeaten = [
        not ((rivals["tokens_per_s"] > fast) & (rivals["energy_per_token_j"] < low)).any()
        for fast, low in zip(front["tokens_per_s"], front["energy_per_token_j"], strict=True)
    ]
    print(f"{method}: {len(front)} points on its front, {sum(unbeaten)} of them unbeaten by {other}")
    print(front.nlargest(3, "tokens_per_s")[["dram.channels", "npu.clock_mhz", "tokens_per_s"]].to_string(index=False))
