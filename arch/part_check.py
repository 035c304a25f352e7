"""Whether a part's numbers agree with its standard and with each other."""

from pimloom.arch.currents import contradictions
from pimloom.arch.dram import SELF_REFRESH, SHARED, STACK_IDS
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.standard import join_tables
from pimloom.arch.units import PS_PER_NS

NEVER_ZERO = ("nBL", "tCCD_S", "tCCD_L", "tRCDRD", "tRCDWR", "tRP", "tRFC", "tREFI", "tRFCpb", "tREFIpb")
LONGEST_CK = 10**9  # far beyond any DRAM; keeps every sum of waits far below 2^63
BURST_TOLERANCE = 0.01  # pin rates are rounded: 14 Gb/s with a clock of 570 ps is off by 0.25 %


def check_part(part: Part, where: str) -> None:
    """Raise UserError unless the timings are the standard's and the geometry, burst and rates agree with each other."""
    try:
        standard, org = join_tables(part.standard, part.pim), part.organization
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    wanted, welcome = standard.timings, {**standard.timings, **standard.optional}
    if missing := sorted(wanted.keys() - part.timing.keys()):
        raise UserError(f"{where}: at $.timing: missing key {missing[0]} ({wanted[missing[0]]})")
    if extra := sorted(part.timing.keys() - welcome.keys()):
        known = ", ".join(sorted(welcome))
        raise UserError(f"{where}: at $.timing.{extra[0]}: {part.standard} has no such timing; it has {known}")
    optional, alone = standard.optional.keys(), {**SELF_REFRESH, **STACK_IDS, **SHARED}
    if org.ranks > 1 and (missing := sorted(optional & STACK_IDS.keys() - part.timing.keys())):
        said = f"missing key {missing[0]} ({welcome[missing[0]]}), which {org.ranks} ranks need"
        raise UserError(f"{where}: at $.timing: {said}")
    for together in (optional & SELF_REFRESH, optional - alone):
        absent, found = sorted(together - part.timing.keys()), sorted(together & part.timing.keys())
        if absent and found:
            key = absent[0]
            raise UserError(f"{where}: at $.timing: missing key {key} ({welcome[key]}), which {found[0]} needs")
    if part.one_bus and len({command.bus for command in standard.commands}) == 1:
        raise UserError(f"{where}: at $.one_bus: {part.standard} has one command bus; leave this out")
    if org.capacity_bytes != (size := org.banks * org.rows * org.row_bytes):
        raise UserError(
            f"{where}: at $.organization.capacity_bytes: banks x rows x row make {size}, not {org.capacity_bytes}"
        )
    burst_bits = part.cycles("nBL") * part.tCK_ps * org.dq_bits / org.pseudo_channels * org.pin_gbps / PS_PER_NS
    if abs(burst_bits / org.access_bits - 1) > BURST_TOLERANCE:
        raise UserError(
            f"{where}: at $.timing.nBL: a burst carries {burst_bits:g} bits, a column access {org.access_bits}"
        )
    if org.access_bits * org.pseudo_channels % org.dq_bits:
        said = f"a column access of {org.access_bits} bits is not a whole number of beats on {org.dq_bits} data pins"
        raise UserError(f"{where}: at $.organization.dq_bits: {said}; expected a divisor")
    if zero := [name for name in NEVER_ZERO if name in part.timing and not part.cycles(name)]:
        raise UserError(f"{where}: at $.timing.{zero[0]}: expected more than 0")
    for name in part.timing:
        if part.cycles(name) > LONGEST_CK:
            raise UserError(
                f"{where}: at $.timing.{name}: expected at most {LONGEST_CK} clocks, got {part.cycles(name)}"
            )
    for name, value in {"VDD": part.VDD, **{f"current.{name}": value for name, value in part.current.items()}}.items():
        if not value > 0:
            raise UserError(f"{where}: at $.{name}: expected more than 0, got {value:g}")
    for name, below, why in contradictions(part.current):
        both = f"expected more than {below} of {part.current[below]:g} mA: {why}; got {part.current[name]:g} mA"
        raise UserError(f"{where}: at $.current.{name}: {both}")
    least, given = part.cycles("tRAS") + part.cycles("tRP"), part.cycles("tRC")
    if given < least:
        raise UserError(f"{where}: at $.timing.tRC: expected at least tRAS + tRP = {least} nCK, got {given} nCK")
    least, given = 2 * part.cycles("tRFC"), part.cycles("tREFI")
    if given < least:  # else refresh alone could keep every row closed
        raise UserError(f"{where}: at $.timing.tREFI: expected at least 2 tRFC = {least} nCK, got {given} nCK")
    if org.dq_bits % part.devices:
        raise UserError(f"{where}: at $.devices: expected a divisor of the {org.dq_bits} data pins, got {part.devices}")
    if part.pim_unit and part.pim_unit.lanes * part.pim_unit.element_bits != org.access_bits:
        raise UserError(f"{where}: at $.pim_unit.lanes: lanes x element_bits must be access_bits ({org.access_bits})")
