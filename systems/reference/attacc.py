"""What AttAcc's published simulator does otherwise, each by itself; physics is none of it.

[secondary A] scale-snu/attacc_simulator@c600051; what each costs was found by running it.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Slips:
    """schedule: the released lists of commands, of `mappers/attacc/counts.py`. wires_per_byte: pJ/bit times bytes in a
    stack. context_for_free: multiply-adds of probabilities and values draw nothing there. occupancy_of_memory: a GPU
    whose last wave of blocks is not full reads its memory slower, so that an H100 comes out behind an A100.
    registers_of_one_head: of attention on a GPU, one head's registers draw. host_of_each_gpu: a processor of the host
    serves each GPU, however many there are. padded_stacks: each stack beside a GPU draws what the fullest one does.
    links_of_one_gpu: an all-reduce of one GPU draws. fitted_links: an all-reduce takes n - 1 steps of a line that was
    fitted to a DGX A100, each of at least 6.06 µs, and each GPU sends its values once. rate_of_one_part: stacks read at
    the rate of one of 5.2 Gb/s a pin, whatever their part. prompts_for_free: keys and values of prompts reach the
    stacks without energy. co_processing_for_free: weights that the stacks read draw as if the GPUs had read them.
    half_rate_beside_stacks: of products at 8 bits that it computes, a GPU leaves so much to the stacks as if its rate
    were that at 16 bits. hidden_in_quarters: of what hides of both projections beside attention, three quarters are of
    the first, however long it takes. vectors_of_one_core: activations and norms compute on one core of a GPU."""

    schedule: bool = False
    wires_per_byte: bool = False
    context_for_free: bool = False
    occupancy_of_memory: bool = False
    registers_of_one_head: bool = False
    host_of_each_gpu: bool = False
    padded_stacks: bool = False
    links_of_one_gpu: bool = False
    fitted_links: bool = False
    rate_of_one_part: bool = False
    prompts_for_free: bool = False
    co_processing_for_free: bool = False
    half_rate_beside_stacks: bool = False
    hidden_in_quarters: bool = False
    vectors_of_one_core: bool = False


AS_RELEASED = Slips(**dict.fromkeys((slip.name for slip in fields(Slips)), True))
PHYSICAL = Slips()
