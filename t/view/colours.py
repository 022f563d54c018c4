"""Colours as people see them: contrast, and distance with and without each kind of cone.

The matrices are those of Machado, Oliveira and Fernandes (2009) for people who lack the cones for
long (protanopia), medium (deuteranopia) or short (tritanopia) waves. They apply to linear RGB.
Distances are Euclidean in Oklab (Ottosson 2020), times 100: colours at 10 are clearly different.
"""

SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}

_TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def linear(colour):
    """The linear RGB of "#rrggbb"."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def luminance(colour):
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(colour)))


def contrast(a, b):
    """The contrast of two colours as WCAG 2 defines it, 1 to 21."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _apply(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def _lab(colour, sight):
    seen = [min(1.0, max(0.0, c)) for c in _apply(SIGHTS[sight], linear(colour))]
    return _apply(_TO_LAB, [c ** (1 / 3) for c in _apply(_TO_LMS, seen)])


def distance(a, b, sight):
    """How different two colours look to people with this *sight*."""
    return 100 * sum((x - y) ** 2 for x, y in zip(_lab(a, sight), _lab(b, sight))) ** 0.5
