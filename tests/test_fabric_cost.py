"""Networks from their parts: the specification's totals, the formulas, the cost with faults, and wrong prices."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.fabric_cost import COMPONENTS, bill, bill_names, load_components
from pimloom.arch.optics import load_optics
from pimloom.arch.topology import NAMED
from pimloom.energy.cost import aggregate, network_cost
from pimloom.reports.fabric.cost_figures import aggregate_figure, power_figure
from pimloom.systems.fabric.cost import aggregate_rows, cost_rows, part_rows
from pimloom.systems.fabric.waste_file import WastePoint, read_waste
from tests.command import call

# Specification 4.2: $/GPU, GB/s per GPU, $ per GB/s, W/GPU, W per GB/s.
TOTALS = {
    "infinitehbd-k2": (2626.80, 800, 3.28, 48.10, 0.060),
    "infinitehbd-k3": (3740.60, 800, 4.68, 72.05, 0.090),
    "tpuv4": (1567.20, 300, 5.22, 19.39, 0.065),
    "nvl36": (9563.20, 900, 10.63, 75.95, 0.084),
    "nvl72": (9563.20, 900, 10.63, 75.95, 0.084),
    "nvl36x2": (17924.00, 900, 19.92, 150.32, 0.167),
    "nvl576": (30417.60, 900, 33.80, 413.45, 0.459),
}
LOADED = load_components()
WASTE = "arch,gpus,gpus_per_node,tp,fault_ratio,draws,waste_ratio_mean,usable_gpus_mean\n"


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def result(*arguments: str) -> dict:
    done = call("fabric", "cost", *arguments, "--json", "-")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_totals_of_the_specification() -> None:
    rows = {row["arch"]: row for row in cost_rows()}
    assert list(rows) == list(TOTALS)
    for name, (usd, gb_s, per_gb_s, watts, w_per_gb_s) in TOTALS.items():
        row = rows[name]
        assert row["usd_per_gpu"] == pytest.approx(usd, rel=1e-3) and row["w_per_gpu"] == pytest.approx(watts, rel=1e-3)
        assert row["gb_s_per_gpu"] == gb_s
        assert row["usd_per_gb_s"] == pytest.approx(per_gb_s, abs=0.005001)  # printed with two and three digits
        assert row["w_per_gb_s"] == pytest.approx(w_per_gb_s, abs=0.0005001)


def test_a_gb_s_costs_31_per_cent_of_nvl72s_and_the_other_ratios() -> None:
    rows = {row["arch"]: row for row in cost_rows()}
    assert rows["infinitehbd-k2"]["ratio_to_nvl72"] == pytest.approx(0.31, abs=0.005)
    assert rows["infinitehbd-k3"]["ratio_to_nvl72"] == pytest.approx(0.44, abs=0.005)
    assert rows["infinitehbd-k2"]["usd_per_gb_s"] / rows["tpuv4"]["usd_per_gb_s"] == pytest.approx(0.628, abs=0.002)
    assert rows["nvl72"]["ratio_to_nvl72"] == 1


@given(st.integers(2, 12), st.integers(2, 16))
def test_any_ring_by_the_formula(hops: int, gpus_per_node: int) -> None:
    name = f"infinitehbd-k{hops}"
    if hops > gpus_per_node:
        with pytest.raises(UserError, match=f"{hops} bundles need as many slots"):
            bill(LOADED, name, gpus_per_node)
        return
    row = network_cost(bill(LOADED, name, gpus_per_node))
    usd = (8 * hops * (600 + 6.8) + 2 * (gpus_per_node - hops) * 199.6) / gpus_per_node
    watts = (8 * hops * 12 + 2 * (gpus_per_node - hops) * 0.1) / gpus_per_node
    assert (row.usd_per_gpu, row.w_per_gpu) == pytest.approx((usd, watts))


def test_counts_of_the_specification_per_gpu() -> None:
    found = {(row["arch"], row["part"]): row["count"] / row["gpus"] for row in part_rows()}
    assert found["tpuv4", "module_400g"] == 1.5 and found["tpuv4", "dac_400g"] == 1.25
    assert all(found[name, "nvlink_cable"] == 72 for name in ("nvl36", "nvl72", "nvl36x2", "nvl576"))
    assert {row["count"] for row in part_rows("nvl36x2")} == {36, 72 * 72, 162}


def test_parts_add_up_to_the_totals() -> None:
    lines = part_rows()
    for row in cost_rows():
        parts = [part for part in lines if part["arch"] == row["arch"]]
        for key in ("usd_per_gpu", "w_per_gpu", "usd_per_gb_s"):
            assert sum(part[key] for part in parts) == pytest.approx(row[key])


def test_names_are_those_of_the_topologies() -> None:
    assert set(bill_names(load_components().value)) - set(NAMED) == {"nvl36x2"}  # bought, but no topology of its own
    slices, cubes = cost_rows("tpuv4-slices,tpuv4")
    assert slices | {"arch": "tpuv4"} == cubes


def test_evidence_is_that_of_the_numbers_that_enter() -> None:
    assert {row["evidence"] for row in cost_rows()} == {"derived, recalled"}
    (row,) = cost_rows("nvl72", settings={"nvlink_cable.usd": "30"})
    assert row["evidence"] == "--set, derived, recalled"
    fibre = next(row for row in part_rows("infinitehbd-k2") if row["part"] == "fibre")
    assert fibre["evidence"] == "derived, recalled"


def test_prices_and_counts_can_be_set() -> None:
    assert cost_rows("infinitehbd-k2", settings={"ocstrx.usd": "500"})[0]["usd_per_gpu"] == pytest.approx(2226.80)
    half = cost_rows("infinitehbd-k2", settings={"infinitehbd.per_bundle.ocstrx": "4"})[0]
    assert half["usd_per_gpu"] == pytest.approx(1426.80)


# With faults


@given(
    gpus=st.integers(1, 10**6), share=st.floats(0, 1), price=st.floats(0, 1e5)
)  # fmt: skip
def test_cost_with_faults(gpus: int, share: float, price: float) -> None:
    cost = network_cost(bill(LOADED, "nvl72", 4))
    found = aggregate(cost, gpus, gpus * share, price)
    assert found.usd == pytest.approx(gpus * 9563.20 + gpus * (1 - share) * price)
    assert found.network_w == pytest.approx(gpus * 75.95)


def test_cost_with_faults_by_hand() -> None:
    (row,) = aggregate_rows([WastePoint("infinitehbd-k2", 1000, 4, 32, 0.05, 0.01, 940.0)], 20000)
    assert row["network_usd"] == pytest.approx(2_626_800) and row["idle_gpu_usd"] == pytest.approx(60 * 20000)
    assert row["aggregate_usd_per_gpu"] == pytest.approx(3826.80)
    assert row["network_w_per_usable_gpu"] == pytest.approx(48.1 * 1000 / 940)
    with pytest.raises(ValueError, match="expected 0 to 10 usable GPUs, got 11"):
        aggregate(network_cost(bill(LOADED, "nvl72", 4)), 10, 11, 1)
    with pytest.raises(UserError, match="waste of nvl72 at fault ratio 0.7"):
        aggregate_rows([WastePoint("nvl72", 10, 1, 8, 0.7, 0.4, 11.0)], 1)
    for price in (-1.0, 1e10, float("nan")):
        with pytest.raises(UserError, match=f"price of a GPU {price}: expected a number from 0 to 1,000,000,000"):
            aggregate_rows([], price)
    (lost,) = aggregate_rows([WastePoint("nvl36", 72, 4, 64, 0.0, 1.0, 0.0)], 1)
    assert lost["network_w_per_usable_gpu"] is None


def test_waste_is_drawn_or_read_from_a_file_alike() -> None:
    drawn = ("--tp", "32", "--fault-ratio", "0,0.07", "--draws", "20", "--seed", "3")
    rows = result("--gpu-usd", "20000", *drawn)["rows"]
    names = [row["arch"] for row in rows if row["fault_ratio"] == 0]
    assert names == ["infinitehbd-k2", "infinitehbd-k3", "nvl36", "nvl72", "nvl576", "tpuv4", "tpuv4-slices"]
    none = {row["arch"]: row["waste_ratio_mean"] for row in rows if row["fault_ratio"] == 0}
    assert none["nvl72"] == none["nvl36"] == pytest.approx(1 / 9) and none["tpuv4"] == none["infinitehbd-k2"] == 0
    ring = next(row for row in rows if row["arch"] == "infinitehbd-k2" and row["fault_ratio"] == 0.07)
    idle = 1 - ring["usable_gpus_mean"] / 2880
    assert idle == pytest.approx(0.07 + ring["waste_ratio_mean"], abs=0.01)  # the share that is down in these draws
    assert ring["waste_ratio_mean"] == pytest.approx(0.0165, abs=0.004)
    assert ring["aggregate_usd_per_gpu"] == pytest.approx(2626.80 + idle * 20000)
    assert call("fabric", "waste", *drawn, "--csv", "w.csv").code == 0
    assert result("--gpu-usd", "20000", "--waste", "w.csv")["rows"] == rows
    eight = result("--gpu-usd", "1", "--gpus-per-node", "8", "--fault-ratio", "0.01", "--draws", "2")["rows"]
    lost = result("--gpu-usd", "1", "--tp", "64", "--fault-ratio", "0.02", "--arch", "nvl36")["rows"]
    assert lost[0]["usable_gpus_mean"] == 0 and lost[0]["idle_gpu_usd"] == 2880  # no group of 64 in 36
    assert "nvl36" not in {row["arch"] for row in eight}  # 36 GPUs are no whole nodes of 8


def test_waste_file_is_read_back() -> None:
    Path("w.csv").write_text(
        WASTE + "nvl72,2880,4,32,0.01,10,0.1,2560\ninfinitehbd-k2,2880,4,32,0.01,10,0.0045,2838.5\n"
    )
    assert read_waste(Path("w.csv")) == [
        WastePoint("nvl72", 2880, 4, 32, 0.01, 0.1, 2560.0),
        WastePoint("infinitehbd-k2", 2880, 4, 32, 0.01, 0.0045, 2838.5),
    ]
    found = result("--gpu-usd", "25000", "--waste", "w.csv")["rows"]
    assert [row["arch"] for row in found] == ["nvl72", "infinitehbd-k2"]
    assert found[0]["aggregate_usd_per_gpu"] == pytest.approx(9563.2 + 25000 / 9)
    assert len(result("--gpu-usd", "25000", "--waste", "w.csv", "--arch", "nvl72")["rows"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "w.csv: the file is empty"),
        ("arch,gpus\nnvl72,8\n", "w.csv:1: no column gpus_per_node"),
        (WASTE, "w.csv: no rows below the heading"),
        (WASTE + "nvl72,72,4,32,0.01,10,1.5,0\n", "w.csv:2: waste_ratio_mean '1.5': expected a number from 0 to 1"),
        (WASTE + "nvl72,72,4,32,nan,10,0,0\n", "w.csv:2: fault_ratio 'nan': expected a number from 0 to 1"),
        (WASTE + "nvl72,72.5,4,32,0,10,0,0\n", "w.csv:2: gpus '72.5': expected an integer from 1"),
        (WASTE + "nvl72,72\n", "w.csv:2: gpus_per_node 'None': expected an integer from 1"),
        (WASTE + "nvl36,72,8,8,0.1,1,,\n", "w.csv: no rows below the heading"),
        (WASTE + "big-switch,72,4,8,0,1,0,0\n", "no architecture with a list of parts; it has big-switch"),
        (WASTE + "nvl72,72,4,8,0.6,1,0.4,73\n", "w.csv:2: usable_gpus_mean '73': expected a number from 0 to 72"),
    ],
)
def test_bad_waste_files(text: str, message: str) -> None:
    Path("w.csv").write_text(text)
    done = call("fabric", "cost", "--gpu-usd", "1", "--waste", "w.csv")
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1 and not done.out


# The command


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    done = call("fabric", "cost", "--csv", "c.csv", "--figure", "c.svg", "--json", "c.json")
    assert done.code == 0 and "30.9%" in done.out and "17,924.00" in done.out
    assert Path("c.csv").read_text().splitlines()[0].startswith("arch,usd_per_gpu,gb_s_per_gpu,usd_per_gb_s")
    assert "<svg" in Path("c.svg").read_text() and "nvl576" in Path("c.svg").read_text()
    found = json.loads(Path("c.json").read_text())
    assert found["rows"] == cost_rows() and found["gpus_per_node"] == 4
    assert "19,660.80" not in call("fabric", "cost", "--parts").out
    assert result("--parts", "--arch", "nvl72")["rows"] == part_rows("nvl72")
    assert call("fabric", "cost", "--quiet").out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--arch", "big-switch"), "no parts and no bandwidth of it are known"),
        (("--arch", "nvl71"), "nearest: nvl72"),
        (("--arch", "all,nvl71"), "--arch all,nvl71: all stands alone; leave out the others"),
        (("--arch", "dgx8"), "no list of its parts is known; expected of infinitehbd-kN, tpuv4"),
        (("--arch", "infinitehbd-k5"), "5 bundles need as many slots; a node with --gpus-per-node 4 has 4"),
        (("--gpus-per-node", "0"), "--gpus-per-node 0: expected 1 to 64"),
        (("--set", "ocstrx.usd=-1"), "parts.ocstrx.usd: expected number >= 0 and <= 1000000000, got -1"),
        (("--set", "ocstrx.eur=1"), "no such key in components.yaml; nearest: parts.ocstrx"),
        (("--set", "ocstrx"), "expected KEY=VALUE, such as ocstrx.usd=500"),
        (("--gpu-usd", "1"), "needs --gpu-usd, and one of --fault-ratio and --waste"),
        (("--waste", "w.csv"), "needs --gpu-usd, and one of --fault-ratio and --waste"),
        (("--fault-ratio", "0.1"), "needs --gpu-usd, and one of --fault-ratio and --waste"),
        (("--gpu-usd", "1", "--waste", "w.csv", "--fault-ratio", "0.1"), "--waste w.csv: has the waste of its own"),
        (("--gpu-usd", "1", "--fault-ratio", "2"), "--fault-ratio '2': expected shares from 0 to 1"),
        (("--gpu-usd", "1", "--fault-ratio", "0", "--tp", "6"), "--tp 6: expected a multiple"),
        (("--gpu-usd", "1", "--fault-ratio", "0", "--arch", "nvl36x2"), "has parts but no topology"),
        (("--waste", "w.csv", "--gpu-usd", "1"), "w.csv: no such file"),
        (("--waste", "w.csv", "--gpu-usd", "1", "--parts"), "one table at a time"),
        (("--csv", "no/c.csv"), "--csv no/c.csv: there is no folder no"),
        (("--figure", "c.png"), "figures are SVG"),
        (("--csv", "a", "--json", "a"), "--csv a: is the file of --json too"),
        (("--csv", "-"), "--csv -: expected a file"),
        (("--gpu-usd", "1", "--waste", "w.csv", "--csv", "w.csv"), "--csv w.csv: is the file of --waste too"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = call("fabric", "cost", *arguments)
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1 and not done.out
    assert not list(Path().iterdir())


def test_a_list_with_a_part_without_price() -> None:
    Path("c.yaml").write_text(COMPONENTS.read_text().replace("      nvlink_switch: 9 #", "      nvlink_swich: 9 #"))
    with pytest.raises(
        UserError, match=r"at \$.domains.nvl36.parts: no price of 'nvlink_swich'; nearest: nvlink_switch"
    ):
        load_components("c.yaml")


def test_figures_are_drawn() -> None:
    points = [WastePoint(name, 720, 4, 8, f, 0.01, 720 * (0.99 - f)) for name in ("nvl72", "tpuv4") for f in (0.0, 0.1)]
    with_faults = aggregate_figure(aggregate_rows(points, 30000))
    assert all(figure.svg.startswith("<svg") for figure in (power_figure(part_rows()), with_faults))
    assert "30,000 $" in with_faults.caption


def test_the_transceiver_has_one_price() -> None:
    """It stands in its part, for what a module is, and among the components, for what a network is made of."""
    part, price = load_optics("ocstrx").value, load_components().value.parts["ocstrx"]
    assert (part.cost_usd, part.power_w) == (price.usd, price.w)
