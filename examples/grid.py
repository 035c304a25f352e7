"""How many channels does PIM-GPT need, and how fast an ASIC beside them? A grid, as a table and as a picture.

python examples/grid.py            # writes channels.svg into the current folder
"""

# %% A grid is a mapping with the keys of a sweep file; `out` would keep its rows for a later call.
import matplotlib.pyplot as plt

import pimloom

table = pimloom.sweep(
    {
        "system": "pim_gpt",
        "workload": {"model": "gpt2", "generate": 8},
        "axes": {"dram.channels": [2, 4, 8, 16], "npu.clock_mhz": [100, 250, 500, 1000]},
        "constraints": ["power_w < 75"],
        "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
    },
    progress=True,
)

# %% A DataFrame with one row for each point, in the order of the axes.
print(table.pivot(index="npu.clock_mhz", columns="dram.channels", values="tokens_per_s").round(0))

# %% What it costs to be faster: the points that no other beats in both.
front = table[table["pareto"]].sort_values("tokens_per_s")
print(front[["dram.channels", "npu.clock_mhz", "tokens_per_s", "energy_per_token_j"]].to_string(index=False))

# %% The picture.
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for clock_mhz, rows in table.groupby("npu.clock_mhz"):
    axes.plot(rows["dram.channels"], rows["tokens_per_s"], marker="o", label=f"{clock_mhz} MHz")
axes.set(xlabel="channels", ylabel="tokens/s", xscale="log", yscale="log", title="GPT-2 on PIM-GPT")
axes.legend(title="ASIC clock")
figure.savefig("channels.svg")
