"""One drawing of matplotlib as inline SVG whose colours and fonts are the page's.

matplotlib draws in stand-in colours; each becomes a variable of `templates/style.css`, with the colour of the
light theme where that style sheet is absent. Text stays text. No date, no random id: the same drawing gives
the same bytes.
"""

import io
import re
import warnings
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

WIDTH_IN = 10.0
INK, MUTED, GRID, PAPER, BAND = (f"#01010{nth}" for nth in range(5))
SERIES = tuple(f"#01020{nth}" for nth in range(8))
THEME = {
    INK: "var(--ink, #1a2230)",
    MUTED: "var(--muted, #586474)",
    GRID: "var(--grid, #e6eaee)",
    PAPER: "var(--paper, #ffffff)",
    BAND: "var(--band, #c9d2de)",
    SERIES[0]: "var(--s0, #395196)",
    SERIES[1]: "var(--s1, #e77140)",
    SERIES[2]: "var(--s2, #1fa594)",
    SERIES[3]: "var(--s3, #591531)",
    SERIES[4]: "var(--s4, #4d79a9)",
    SERIES[5]: "var(--s5, #906200)",
    SERIES[6]: "var(--s6, #5d4a17)",
    SERIES[7]: "var(--s7, #31167f)",
    "'DejaVu Sans'": "var(--sans, sans-serif)",  # the font whose widths the layout is made with
}
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pimloom",
    "text.parse_math": False,
    "text.color": INK,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "figure.dpi": 72,  # the resolution of SVG: what is measured is what is drawn
    "figure.facecolor": "none",
    "figure.constrained_layout.h_pad": 0.06,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelpad": 7,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.xmargin": 0.04,
    "axes.ymargin": 0.1,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "xtick.major.pad": 6,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.handlelength": 1.5,
    "legend.columnspacing": 1.6,
    "hatch.color": PAPER,
    "hatch.linewidth": 1.4,
}
# What a user's matplotlibrc may have changed and a report must not show.
PLAIN = re.compile(r"(axes|figure|font|grid|hatch|legend|lines|patch|path|text|xtick|ytick)\.")
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def draw_svg(label: str, draw: Callable[[Any, Any], None], height_in: float) -> Markup:
    """What `draw(figure, axes)` draws, as an `<svg>` that a screen reader calls `label`."""
    from matplotlib import rc_context, rcParamsDefault
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.StringIO()
    plain: dict[Any, Any] = {key: value for key, value in rcParamsDefault.items() if PLAIN.match(key)}
    with rc_context(plain | STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing", UserWarning)  # the browser has the glyph
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        canvas: Any = FigureCanvasSVG(figure)
        draw(figure, figure.add_subplot())
        canvas.print_svg(out, metadata=NO_METADATA)  # `savefig` draws twice, the first time for the layout alone
    return _themed(out.getvalue(), label)


def clean(text: str) -> str:
    """`text` with what XML cannot carry, such as control characters, replaced."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _themed(drawing: str, label: str) -> Markup:
    root = ElementTree.fromstring(drawing)
    prefix = f"svg-{sha256((drawing + label).encode()).hexdigest()[:10]}-"
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", drawing))
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        for child in [child for child in element if _local(child.tag) in ("metadata", "style")]:
            element.remove(child)
        element.attrib = {_local(key): _value(value, prefix) for key, value in element.attrib.items()}
        if (name := element.attrib.pop("id", None)) in used:
            element.set("id", f"{prefix}{name}")
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": root.attrib["viewBox"]}
    root.attrib = attributes | {"role": "img", "aria-label": clean(label)}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _value(value: str, prefix: str) -> str:
    """An attribute in the page's colours and fonts, pointing at this drawing's own ids."""
    for stand_in, variable in THEME.items():
        value = value.replace(stand_in, variable)
    return re.sub(r"^#|(?<=url\()#", f"#{prefix}", value)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
