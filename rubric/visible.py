"""Foreign text as data: control, direction and broken characters are written out, so that one reads what is there."""

import unicodedata

LIMIT = 4_000  # characters of one foreign text that are shown; the rest is counted
_JOINERS = "\u200c\u200d"  # zero width, but part of how people write (Persian, joined emoji)
_NAMES = {"\t": "\\t", "\r": "\\r", "\n": "\\n"}


def visible(text: str, *, lines: bool = False, limit: int = LIMIT) -> str:
    """The text with unprintable characters as \\x1b, \\u202e or \\U000e0001; no ESC, no lone surrogate, no new line.

    `lines` keeps line feeds. Longer text than `limit` is cut, and says how many characters were left out.
    """
    text = str(text)
    if lines:
        text = text.replace("\r\n", "\n")
    cut = text[:limit]
    while len(cut) < len(text) and cut and _joins(text[len(cut)], cut[-1]):
        cut = cut[:-1]  # never between a letter and its accent, or inside a joined emoji
    shown = "".join(_shown(character, lines) for character in cut)
    left = len(text) - len(cut)
    return f"{shown} ... ({left} more characters)" if left else shown


def _joins(after: str, before: str) -> bool:
    return after in _JOINERS or before in _JOINERS or unicodedata.category(after).startswith("M")


def _shown(character: str, lines: bool) -> str:
    if character == "\n" and lines:
        return character
    if character in _NAMES:
        return _NAMES[character]
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp") or character in _JOINERS:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
