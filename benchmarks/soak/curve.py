"""Draws measurements over time as an SVG image."""

from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 260, 56, 36, 24
BLUE, GREY, INK = "#2563eb", "#d4d4d8", "#3f3f46"


def curve(title: str, unit: str, points: Sequence[tuple[float, float]]) -> str:
    """Return a curve of values over minutes; ``points`` are (seconds, value)."""
    longest = max(second for second, _ in points) or 1.0
    highest = step_above(max(value for _, value in points))

    def place(second: float, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 16) * second / longest
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / highest
        return round(x, 1), round(y, 1)

    line = " ".join(f"{x},{y}" for x, y in (place(*point) for point in points))
    pieces = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" '
        f'font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="15" font-weight="600">{title}</text>',
    ]
    for part in range(5):
        x, y = place(longest * part / 4, highest * part / 4)
        pieces += [
            f'<line x1="{LEFT}" x2="{WIDTH - 16}" y1="{y}" y2="{y}" stroke="{GREY}"/>',
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{highest * part / 4:g}</text>',
            f'<text x="{x}" y="{HEIGHT - 16}" text-anchor="middle">{longest * part / 240:.3g} min</text>',
        ]
    pieces += [
        f'<text x="8" y="{TOP - 9}">{unit}</text>',
        f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>',
        "</svg>",
    ]
    return "\n".join(pieces) + "\n"


def step_above(value: float) -> float:
    """Return a round number that is at least ``value``."""
    step = 1.0
    while True:
        for factor in (1, 2, 4, 8):
            if step * factor >= value:
                return step * factor
        step *= 10
