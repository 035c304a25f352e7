"""The first page of `report serving`: machines, their copies, who wins, where that changes."""

import pytest

from pimloom.arch.names import list_names
from pimloom.arch.system import load_system
from pimloom.reports.page import Page, render
from pimloom.reports.serving.answer import answer, cards, said
from pimloom.reports.serving.machines import Line, Point, Served, crossings, machines, winner


def point(machine: str, load: float, j: float, usd: float, held: float = 1.0) -> Point:
    return Point(machine, load, 1, "steady", held, 0.5, 0.02, j, usd, 0.1, 0.5, 4, "≥ " if machine == "b" else "≤ ")


POINTS = [
    point("a", 1, 5, 1e-6), point("a", 2, 4, 9e-7), point("a", 4, 3, 8e-7, held=0.5), point("b", 1, 6, 9e-7),
    point("b", 2, 3, 8e-7), point("b", 4, 2, 7e-7), point("c", 1, 1, 1e-9, held=0.89), point("c", 2, 1, 1e-9, held=0),
    point("c", 4, 1, 1e-9, held=0.2),
]  # fmt: skip


def test_those_that_do_not_hold_the_limits_win_nothing():
    assert winner(POINTS[:1] + POINTS[3:4] + POINTS[6:7], "j") == POINTS[0]
    assert winner(POINTS[6:], "j") is None
    assert [(one.low, one.high, one.before, one.behind) for one in crossings(POINTS, "j")] == [(1, 2, "a", "b")]
    assert list(crossings(POINTS, "usd")) == []


def test_the_answer_names_winners_crossings_and_who_never_holds():
    changes = [*crossings(POINTS, "j"), *crossings(POINTS, "usd")]
    text = said(POINTS, changes)
    assert text == (
        "Best per joule at 1 requests/s is a; between 1 and 2 requests/s b takes over. The energy of b is a "
        "lower bound: where it is the least, the order is open. Best per dollar at 1 requests/s "
        "is b, and at all higher loads. At no load the limits are held by c."
    )
    assert [card.value for card in cards(POINTS)] == ["a", "b", "b", "b"]
    assert [card.note for card in cards(POINTS)] == [
        "≤ 5 J a token; 4 devices", "0.9 $ a million tokens; 4 devices", "≥ 2 J a token; 4 devices",
        "0.7 $ a million tokens; 4 devices",
    ]  # fmt: skip
    named = machines()[:3]
    lines = [
        Line(machine._replace(system=name), None, tuple(p for p in POINTS if p.machine == name))
        for machine, name in zip(named, "abc", strict=True)
    ]
    html = render(Page("x", "y", [answer(lines, POINTS, changes)]))
    assert "c (limits not held)" in html and "Who serves the trace best" in html and "nobody sells" in html
    none = said([p for p in POINTS if p.machine == "c"], [])
    assert none.startswith("Best per joule: none holds the limits at any load.")


@pytest.mark.parametrize(("name", "sign"), [("gpu_a100", "≤ "), ("attacc", "≥ "), ("duplex", "≥ ")])
def test_an_energy_says_which_bound_it_is(name: str, sign: str) -> None:
    (machine,) = (one for one in machines() if one.system == name)
    assert Served(machine, requests=4).run(1.0, 1).sign == sign


def test_every_machine_of_the_list_ships_and_has_a_price_with_its_evidence():
    for machine in machines():
        system = load_system(machine.system, dict(one.split("=") for one in machine.settings))
        assert machine.system in list_names("systems") and system.kind
        assert machine.usd_per_h > 0 and machine.tag in ("secondary", "derived", "assumed") and machine.source
        assert machine.devices % machine.tp == 0 and (machine.rest_source or not machine.rest_w)


def test_a_machine_gets_the_fewest_copies_that_hold_the_limits():
    served = Served(machines()[0], requests=80)
    found = served.point(16.0)
    assert found.copies > 1 and found.holds and not served.run(16.0, found.copies - 1).holds
    alone = served.run(1.0, 1)
    naive = 53 * (1 - alone.busy)  # W at rest in the mean, beside 400 W while it works
    assert alone.rest == pytest.approx(naive / (naive + 400 * alone.busy), rel=1e-6)
    tokens_per_s = (400 * alone.busy + naive) / alone.j
    assert alone.usd == pytest.approx(1.29 / 3600 / tokens_per_s, rel=1e-6)


def test_power_beside_what_a_system_tells_counts_at_all_times():
    (attacc,) = (one for one in machines() if one.system == "attacc")
    served = Served(attacc, requests=12)
    with_rest, without = served.run(1.0, 1), Served(attacc._replace(rest_w=0.0), requests=12).run(1.0, 1)
    tokens = 1 / (with_rest.usd * 3600 / attacc.usd_per_h / 8)  # a second
    assert served.rest_w == 8 * 53 and with_rest.j - without.j == pytest.approx(8 * 53 / tokens, rel=1e-9)
