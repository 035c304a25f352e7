"""From power to the first ACT, as a table of the part: pins, mode registers and waits.

DDR4 as in JESD79-4, 3.3.1 [recalled]: RESET_n low, CKE low, then MR3, MR6, MR5, MR4, MR2, MR1, MR0 and ZQCL. Codes of
the mode registers [recalled] are those of enjoy-digital/litedram@055e2dc, `litedram/init.py` [secondary].
"""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.part import Part

MRS, ZQCL = "MRS", "ZQCL"
CL = {
    9: 0, 10: 1, 11: 2, 12: 3, 13: 4, 14: 5, 15: 6, 16: 7, 18: 8, 20: 9, 22: 10, 24: 11, 23: 12, 17: 13, 19: 14, 21: 15,
}  # MR0 A12, A6, A5, A4, A2 [recalled]  # fmt: skip
CWL = {9: 0, 10: 1, 11: 2, 12: 3, 14: 4, 16: 5, 18: 6, 20: 7}  # MR2 A5 to A3 [recalled]
WR_RTP = (
    (10, 5, 0), (12, 6, 1), (14, 7, 2), (16, 8, 3), (18, 9, 4), (20, 10, 5), (22, 11, 7), (24, 12, 6), (26, 13, 8),
)  # WR, RTP and code of MR0 A13, A11 to A9 [recalled]  # fmt: skip
CCD_L = {4: 0, 5: 1, 6: 2, 7: 3, 8: 4}  # MR6 A12 to A10 [recalled]
RESET_NS, CKE_NS, RESET_EXIT_NS, MOD_NS = 200_000, 500_000, 10, 15  # JESD79-4 [recalled]: RESET_n, CKE, tXPR, tMOD
XPR_CK, MRD_CK, MOD_CK, ZQINIT_CK = 5, 8, 24, 1024  # JESD79-4 [recalled]; the last is tDLLK, too, at its longest


class Step(NamedTuple):
    """The pins RESET_n and CKE, a command of all ranks or none (register, value: of MRS), and the CK until the next."""

    reset_n: int
    cke: int
    command: str
    register: int
    value: int
    wait_ck: int


def power_up(part: Part) -> tuple[Step, ...]:
    """The steps of a part. Raises UserError for a part without a table, or whose latencies have no code."""
    if part.standard != "ddr4" or part.pim:
        raise UserError(
            f"--power-up core: no public sequence of {part.standard} with its mode registers is in our tables; "
            "let the host initialise the part before it releases reset: --power-up host"
        )
    registers = mode_registers(part)
    rfc, mod = part.cycles("tRFC"), max(MOD_CK, _clocks(MOD_NS, part))
    steps = [Step(0, 0, "", 0, 0, _clocks(RESET_NS, part)), Step(1, 0, "", 0, 0, _clocks(CKE_NS, part))]
    steps.append(Step(1, 1, "", 0, 0, max(XPR_CK, rfc + _clocks(RESET_EXIT_NS, part))))
    steps += [Step(1, 1, MRS, number, registers[number], MRD_CK) for number in (3, 6, 5, 4, 2, 1)]
    return (*steps, Step(1, 1, MRS, 0, registers[0], mod), Step(1, 1, ZQCL, 0, 1 << 10, ZQINIT_CK))


def mode_registers(part: Part) -> dict[int, int]:
    """Values of MR0 to MR6 of a DDR4 part. Raises UserError for a latency without a code."""
    cl = _code("nCL", part, CL)
    code = next((c for wr, rtp, c in WR_RTP if wr >= part.cycles("tWR") and rtp >= part.cycles("tRTP")), None)
    if code is None:
        raise UserError(f"{part.description}: tWR {part.cycles('tWR')} CK has no code in MR0")
    burst_of_8, dll_reset, dll_on, rtt_nom_rzq_6, data_mask = 0, 1 << 8, 1, 3 << 8, 1 << 10  # [design] RTT_NOM, mask
    mr0 = burst_of_8 | (cl & 1) << 2 | (cl >> 1 & 7) << 4 | dll_reset | (code & 7) << 9 | (code >> 3) << 13
    mr6 = _code("tCCD_L", part, CCD_L) << 10
    return {0: mr0, 1: dll_on | rtt_nom_rzq_6, 2: _code("nCWL", part, CWL) << 3, 3: 0, 4: 0, 5: data_mask, 6: mr6}


def _code(name: str, part: Part, codes: dict[int, int]) -> int:
    if (ck := part.cycles(name)) not in codes:
        raise UserError(f"{part.description}: {name} {ck} CK has no code in a mode register of DDR4")
    return codes[ck]


def _clocks(ns: int, part: Part) -> int:
    """CK of so many ns, rounded up."""
    return -(-ns * 1000 // part.tCK_ps)
