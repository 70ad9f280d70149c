"""Panels of lines on logarithmic axes as one SVG text, for the figures of docs/."""
import math
from typing import NamedTuple

COLOURS = ("#222222", "#c44e52", "#dd8452", "#2c5fa8", "#55a868", "#8172b3")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 300, 240, 52, 58, 44, 24


class Panel(NamedTuple):
    title: str  # below its horizontal axis
    lines: list  # of (x, y); what lies outside of the axes is left out


def decades(low, high):
    return range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9) + 1)


def power_of_ten(x, y, power, anchor):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">10<tspan dy="-4" font-size="8">{power}</tspan>'
            "</text>")


def plain(value):
    return f"{value:g}"


def panel_svg(panel, at, heights):
    widths = decades(min(x for line in panel.lines for x, _ in line if x > 0),
                     max(x for line in panel.lines for x, _ in line))
    left, width = at + LEFT, WIDTH - LEFT
    few = widths[-1] - widths[0] <= 3
    across = lambda x: left + width * (math.log10(x) - widths[0]) / (widths[-1] - widths[0])
    down = lambda y: TOP + HEIGHT * (heights[-1] - math.log10(y)) / (heights[-1] - heights[0])
    out = []
    for power in widths:
        x = across(10.0**power)
        out.append(f'<path d="M{x:.1f},{TOP}v{HEIGHT}" stroke="#ddd"/>')
        label = f'<text x="{x:.1f}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{plain(10.0**power)}</text>'
        out.append(label if few else power_of_ten(x, TOP + HEIGHT + 14, power, "middle"))
    for power in heights:
        y = down(10.0**power)
        out.append(f'<path d="M{left},{y:.1f}h{width}" stroke="#ddd"/>')
        out.append(power_of_ten(left - 6, y + 4, power, "end"))
    for colour, line in zip(COLOURS, panel.lines):
        inside = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in line if x > 0 and y >= 10.0**heights[0])
        out.append(f'<polyline points="{inside}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    out.append(f'<text x="{left + width / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">{panel.title}</text>')
    return "\n".join(out)


def log_figure(title, names, panels, bounds, y_title=""):
    """`bounds`: least and largest value of the vertical axis, which all panels share."""
    heights = decades(*bounds)
    width, height = len(panels) * (WIDTH + GAP), TOP + HEIGHT + BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           f'font-size="11" fill="#222"><rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="16" font-size="12" font-weight="bold">{title}</text>',
           f'<text x="6" y="{TOP - 6}">{y_title}</text>']
    for i, (colour, name) in enumerate(zip(COLOURS, names)):
        x = LEFT + i * (width - LEFT) / len(names)
        out.append(f'<path d="M{x:.0f},34h18" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{x + 23:.0f}" y="38">{name}</text>')
    out += [panel_svg(panel, i * (WIDTH + GAP), heights) for i, panel in enumerate(panels)]
    return "\n".join(out) + "\n</svg>\n"
