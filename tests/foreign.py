"""Small configurations of DRAMsim3 and Ramulator 2.1, and how the tests change and read them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2
from pimloom.arch.memory import Memory

INI = """\
[dram_structure]
protocol = DDR4
bankgroups = 4
banks_per_group = 4
rows = 65536
columns = 1024
device_width = 8
BL = 8

[timing]
tCK = 0.63
CL = 22
CWL = 16
tRCD = 22
tRP = 22
tRAS = 52
tRFC = 560
tREFI = 12480
tRRD_S = 4
tRRD_L = 8 ; same group
tWTR_S = 4
tWTR_L = 12
tFAW = 34
tWR = 24
tRTP = 12
tCCD_S = 4
tCCD_L = 8
tRTRS = 1

[power]
VDD = 1.2
IDD0 = 57

[system]
channel_size = 16384
bus_width = 64
address_mapping = rochrababgco
cmd_queue_size = 8
"""

YAML = """\
frontend:
  impl: External
  clock_ratio: 1
memory_system:
  impl: GenericDRAM
  clock_ratio: 1
  channel_mapper:
    impl: CacheLineInterleave
    interleave_bits: 0
  controllers:
    - impl: GenericDDR
      wr_low_watermark: 0.2
      wr_high_watermark: 0.8
      read_buffer_size: 16
      write_buffer_size: 24
      priority_buffer_size: 1568
      scheduler:
        impl: FRFCFS-RowHit
      refresh_manager:
        impl: AllBank
        scatter_interval: 0
        debug: false
      row_policy:
        impl: ClosedCAP
        cap: 6
      addr_mapper:
        impl: RoBaRaCoCh
      dram:
        impl: DDR4
        org:
          dq: 8
          count: [1, 2, 4, 4, 65536, 1024]
        timing: [3200, 4, 22, 22, 22, 52, 74, 24, 12, 16, 4, 8, 4, 8, 4, 12, 34, 576, 12480, 2, 625]
        command_cycles: [1, 1, 1, 1, 1, 1, 1, 1]
        channel_width: 64
        read_latency: 26
        timing_constraints:
          - [1, [3, 5], [3, 4, 5, 6], 6, 1, true]
          - [1, [0], [0], 34, 4]
          - [1, [7], [0, 2], 576]
          - [3, [0], [1], 52]
      controller_plugins: []
"""


def ini(text: str) -> Memory:
    """What `text` says as a file `a.ini` of the working folder, which a test has to itself."""
    Path("a.ini").write_text(text)
    return load_dramsim3("a.ini")


def reference() -> Memory:
    """The memory of INI."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.ini")
        path.write_text(INI)
        return load_dramsim3(path)


def ramulator(text: str) -> Memory:
    Path("a.yaml").write_text(text)
    return load_ramulator2("a.yaml")


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)
