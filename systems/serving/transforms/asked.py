"""Transforms that a user asks for, checked against the models and systems that they need."""

from collections.abc import Callable

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import System, load_system
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.systems.devices.device import Capacity, Device, Share, device_of
from pimloom.systems.devices.formats import refuse
from pimloom.systems.devices.rest import power_at_rest_w
from pimloom.systems.devices.traits import settled, traits
from pimloom.systems.serving.pricing.costs import Exact
from pimloom.systems.serving.pricing.fitted import Fitted
from pimloom.systems.serving.pricing.grid import Grid
from pimloom.systems.serving.transforms.branched import Branching
from pimloom.systems.serving.transforms.extra import Draft, Extra, Heads, Mirror
from pimloom.systems.serving.transforms.moded import check_mode, parse_mode
from pimloom.systems.serving.transforms.speculated import Accepting, BetaChain, Chain, Tree
from pimloom.systems.serving.transforms.transform import Apart, Spread, Transform
from pimloom.systems.serving.transforms.written import Speculation, parse_branches, parse_speculation
from pimloom.workload.decoding import chain, tree
from pimloom.workload.decoding.density import density_of
from pimloom.workload.decoding.formats import format_of
from pimloom.workload.need import parameters

KNOW = ("vllm-v1", "vllm-v0", "sarathi", "orca", "faster-transformer")  # schedulers whose steps have several tokens
OUTPUT = {  # what a request's output is
    "multiverse": "a request's output is in sequence, in branches, and in sequence again",
    "threadweaver": "the same with threads, whose text is computed once more behind them",
    "hogwild": "workers share a request's output, and see one another's tokens",
    "parathinker": "each path is as long as the request's output; the summary comes behind",
    "parscale": "each token is computed in all streams; their sum takes no time here, and its weights no memory",
    "ets": "output is tokens of all leaves; rewards and meanings are synthetic",
    "sart": "output is tokens of all branches; what they are worth is synthetic",
}
WEIGHT_BITS = 16  # [design] of heads, as of LM heads


def decisive_transforms(
    *, speculate: str | None, branches: str | None, shared: bool, mode: str | None, weights: str | None,
    density: str | None,
) -> dict[str, object]:  # fmt: skip
    """What transforms that are asked for decide, by name: values, not how they are typed. Raises UserError."""
    found = dict[str, object]()
    if speculate is not None:
        of = parse_speculation(speculate)
        draft = of.draft and load_llm(of.draft).decisive()
        alpha = of.alpha if of.spread else of.alphas if of.alpha else ()
        named = {"draft": draft, "on": of.on and load_system(of.on).digest, "alpha": alpha}
        found["speculate"] = of._asdict() | named
    if branches is not None:
        found["branches"] = parse_branches(branches, shared, mode)._asdict()
    if mode is not None:
        found["mode"] = parse_mode(mode)._asdict()
    if weights is not None:
        found["weights"] = format_of(weights)._asdict()
    if density is not None:
        found["density"] = density_of(density)._asdict()
    return found


def transform_of(
    system: System, llm: LlmSpec, share: Share, *, speculate: str | None, branches: str | None, shared: bool,
    scheduler: str, chunked: bool, seed: int, mode: str | None = None,
) -> Transform | None:  # fmt: skip
    """None if none is asked for. Raises UserError."""
    if mode is not None and branches is None:
        raise UserError(f"--mode {mode}: belongs to --branches N; add them, or leave it out")
    if speculate is None and branches is None:
        if shared:
            raise UserError("--shared-kv: belongs to --branches N; add them, or leave it out")
        return None
    option = "--speculate" if speculate is not None else "--branches"
    if speculate is not None and branches is not None:
        raise UserError("--speculate: drafts for branches are not supported; leave --branches out")
    if scheduler not in KNOW or chunked:
        named = f"{scheduler} --chunked" if chunked else scheduler
        raise UserError(f"{option}: {named} computes one new token per request and step; take one of {', '.join(KNOW)}")
    positions = llm.max_position_embeddings
    if branches is not None:
        branching = parse_branches(branches, shared, mode)
        if shared:
            refuse(system, shared=True)
        if mode is not None:
            return _moded(llm, branching, branches, mode, seed)
        held = "read once for all branches" if shared else "copied for each branch, in no time"
        note = f"output is tokens of all {branching.number} branches; keys and values of prompts are {held}"
        return Transform(positions, seed, branching=branching, notes=(note,))
    if shared:
        raise UserError("--shared-kv: belongs to --branches; leave it out")
    asked = parse_speculation(speculate or "")
    return (
        _medusa(system, llm, share, asked, seed)
        if asked.kind == "medusa"
        else _drafted(system, llm, share, asked, seed)
    )


def _moded(llm: LlmSpec, branching: Branching, branches: str, text: str, seed: int) -> Transform:
    mode = parse_mode(text)
    check_mode(mode, branching, branches)
    if branching.shared and mode.name == "parscale":
        raise UserError("--shared-kv: each stream of parscale has keys and values of its own; leave it out")
    said = f"{mode.name}: {OUTPUT.get(mode.name, 'output is tokens of all branches')}"
    return Transform(llm.max_position_embeddings, seed, branching=branching, notes=(said,), mode=mode)


def capacity_left(device: Device, transform: Transform | None) -> Capacity:
    """Memory of the target beside what a transform takes of it."""
    of = device.capacity()
    if transform is None or not (transform.more_bytes or transform.more_bytes_per_token):
        return of
    left = of.memory_bytes - of.weight_bytes - transform.more_bytes
    tokens = int(left // (float(of.cache_bytes_per_token) + transform.more_bytes_per_token))
    return of._replace(tokens=max(min(tokens, of.tokens), 0))


def _medusa(system: System, llm: LlmSpec, share: Share, asked: Speculation, seed: int) -> Transform:
    q = tree.accuracies(asked.top1, asked.decay)
    nodes = tree.likeliest(q, asked.nodes)
    reach = tree.reached(nodes, q)
    if system.kind in ("pim", "cent", "attacc"):
        raise UserError(
            f"--speculate medusa: {system.name} has no steps of one layer, which price the heads; take a draft"
        )
    one = share._replace(layers=1)
    both = [device_of(settled(system, on)[0], llm, one._replace(outside=on)) for on in (True, False)]
    heads, width = len(asked.top1), tree.head_weights(llm.hidden_size, llm.vocab_size)
    lm_heads = heads * width / (llm.hidden_size * llm.vocab_size)
    accuracy = ":".join(f"{one:g}" for one in asked.top1)
    said = (
        f"medusa: {len(nodes)} nodes, {sum(reach):.3f} tokens of a step, of first guesses right with {accuracy}; "
        f"{heads} heads of {width:,} weights cost as many LM heads, each in the mean {lm_heads / heads:.2f}"
    )

    def extra(exact: bool, spread: Spread) -> Extra:
        return Heads(Exact(both[0]), Exact(both[1]), lm_heads)

    accepting = Tree(reach, len(nodes), tree.pairs(nodes), seed)
    more = heads * width * WEIGHT_BITS / BITS_PER_BYTE / share.tp
    return Transform(llm.max_position_embeddings, seed, accepting, extra=extra, more_bytes=more, notes=(said,))


def _drafted(system: System, llm: LlmSpec, share: Share, asked: Speculation, seed: int) -> Transform:
    small = load_llm(asked.draft or "")
    mine, its = parameters(llm), parameters(small)
    if its > mine:
        raise UserError(
            f"--speculate draft={small.name}: {its:,} weights, more than the {mine:,} of {llm.name} that it drafts "
            "for; take a smaller model"
        )
    there = system if asked.on is None else load_system(asked.on)
    own = traits(there.kind).own_devices(there)
    device = _with_head(there, small, Share(share.tp if asked.on is None else own, small.num_hidden_layers))
    positions = small.max_position_embeddings
    accepting: Accepting = (
        BetaChain(chain.beta(asked.alpha[0], asked.spread), asked.gamma, seed)
        if asked.spread
        else Chain(asked.alphas, seed)
    )
    sets = asked.gamma if asked.kind == "prism" else 1
    held = device.capacity() if asked.on is None else None
    return Transform(
        llm.max_position_embeddings,
        seed,
        accepting,
        extra=_extra(device, positions, llm, asked),
        more_bytes=sets * held.weight_bytes if held else 0.0,
        more_bytes_per_token=float(held.cache_bytes_per_token) if held else 0.0,
        notes=(*small.notes, *_said(small, llm, asked, there)),
        apart=None if asked.on is None else Apart(there.name, own, power_at_rest_w(there, own)),
    )


def _with_head(system: System, llm: LlmSpec, share: Share) -> Device:
    """With embedding, LM head and sampling where it can have them: each draft is a token that was chosen."""
    try:
        return device_of(settled(system, True)[0], llm, share._replace(outside=True))
    except UserError:
        return device_of(system, llm, share)


def _extra(device: Device, positions: int, llm: LlmSpec, asked: Speculation) -> Callable[[bool, Spread], Extra]:
    if asked.exit is not None and asked.exit >= llm.num_hidden_layers:
        raise UserError(
            f"--speculate mirror: exit: expected less than the {llm.num_hidden_layers} layers of {llm.name}"
        )

    def made(exact: bool, spread: Spread) -> Extra:
        costs = Exact(device)
        fits = getattr(device, "outline", None) is not None
        grid = costs if exact else Fitted(costs) if fits else Grid(costs, spread, positions)
        draft = Draft(grid, positions, asked.streams, apart=asked.on is not None)
        if asked.kind != "mirror" or asked.exit is None or asked.rho is None:
            return draft
        return Mirror(draft, asked.exit / llm.num_hidden_layers, asked.kappa, asked.rho)

    return made


def _said(small: LlmSpec, llm: LlmSpec, asked: Speculation, system: System) -> list[str]:
    reach = (
        chain.reached_beta(asked.alpha[0], asked.spread, asked.gamma) if asked.spread else chain.reached(asked.alphas)
    )
    found = [
        f"{asked.kind}: {small.name} drafts {asked.gamma} tokens on {system.name}, {sum(reach):.3f} tokens of a step "
        "expected; it reads prompts, too"
    ]
    if small.max_position_embeddings < llm.max_position_embeddings:
        found.append(f"{small.name} sees the last {small.max_position_embeddings:,} tokens of a context")
    if small.vocab_size != llm.vocab_size:
        found.append(
            f"{small.name} has {small.vocab_size:,} words and {llm.name} {llm.vocab_size:,}; taken as if alike"
        )
    return found
