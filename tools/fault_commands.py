"""Commands that tools/faults.py disturbs, each in its smallest form."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command in its smallest form. words: of mxdot; other: the same of another unit; says: the
    lines of its verdict; makes: files that the user asked for; gpu: it needs PyTorch; program: what
    Python runs in place of mxdot."""

    words: str
    other: str
    says: str
    makes: tuple[str, ...] = ()
    gpu: bool = False
    program: tuple[str, ...] = ("-m", "mxdot.cli")


DOT = "--format e2m1 --lanes 4 --accumulator"
ONE = "--jobs 1"
SHORT = "--recipe mxfp4 --sequences 2 --length 12"
COMMANDS = {
    "verilog": Command(
        f"verilog {DOT} exact --stages 1 --assertions -o dot.v",
        f"verilog {DOT} aligned:4 --stages 2 -o other.v",
        r"^dot\.v: .*",
        ("dot.v", "dot_assertions.sv"),
    ),
    "vectors": Command(
        f"vectors {DOT} exact --count 100 -o v.npz --hex hex",
        f"vectors {DOT} aligned:4 --count 90 -o w.npz",
        r"^v\.npz .*",
        ("v.npz", "hex/*"),
    ),
    "probe": Command(
        "probe --unit aligned:13 --format e2m1 --lanes 4 --rows 16 --json probe.json",
        "probe --unit exact --format e2m1 --lanes 4 --rows 8",
        r"^\w.*",
        ("probe.json",),
    ),
    "formal": Command(
        f"verify formal --only multiplier:2 --json formal.json {ONE}",
        f"verify formal --only shift: {ONE}",
        r"^holds +\S+: proved for \S+",
        ("formal.json",),
    ),
    "mutate": Command(
        f"verify mutate --only integer --count 3 --json mutate.json {ONE}",
        f"verify mutate --only integer --count 2 {ONE}",
        r"^integer: .*score [\d.]+%",
        ("mutate.json",),
    ),
    "coverage": Command(
        f"verify coverage --only integer {ONE}",
        f"verify coverage --only integer --seed 2 {ONE}",
        r"^integer: .*",
        ("build/coverage/report.html",),
    ),
    "soak": Command(
        f"sim soak --only aligned_30-e2m3-x4-s1-bfloat16 --seed 1 --count 300 {ONE}",
        f"sim soak --only aligned_30-e2m3-x4-s1-bfloat16 --seed 2 --count 200 {ONE}",
        r"nothing failed|FAILED.*",
    ),
    "sim": Command(
        f"sim dot {DOT} exact --stages 1 --count 200 --traffic 50 --seed 1 --json sim.json {ONE}",
        f"sim dot {DOT} exact --stages 2 --count 100 --traffic 50 --seed 1 {ONE}",
        r"^1 units, .*?coverage [\d.]+%",
        ("sim.json", "build/sim/results.xml", "build/sim/coverage.yml"),
    ),
    "run-layer": Command(
        f"run-layer {DOT} exact --shape 4,4,32 --json layer.json",
        f"run-layer {DOT} exact --shape 8,4,32 --seed 2",
        r"results: .*",
        ("layer.json",),
    ),
    "compare": Command(
        f"compare {DOT} exact --data normal --count 200 -o cmp {ONE}",
        f"compare {DOT} float32 --data normal --count 200 -o other {ONE}",
        r"^e2m1 .*",
        ("cmp/compare.csv", "cmp/lengths.csv", "cmp/report.html"),
    ),
    "evaluate": Command(
        f"evaluate model --accumulator exact,aligned:6 {SHORT} -o ev",
        f"evaluate model --accumulator float32 {SHORT} -o other",
        r"^.*\bdB\b.*|^mxfp4.*",
        ("ev/*.csv", "ev/*.svg"),
        gpu=True,
    ),
}  # fmt: skip

MODEL = """
import torch, transformers
torch.manual_seed(0)
config = transformers.LlamaConfig(vocab_size=97, num_hidden_layers=1, num_attention_heads=4,
    hidden_size=64, intermediate_size=64, max_position_embeddings=64)
transformers.LlamaForCausalLM(config).save_pretrained("model")
"""
"""Script that writes the network of `evaluate`."""
