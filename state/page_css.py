"""The one stylesheet of a page: what all pages share, its theme, and the style of each element."""

from collections.abc import Mapping
from typing import Final

from state.page import Page, walk

_SHARED: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--background);color:var(--text);font-family:var(--font);line-height:1.6}
main{display:block;min-height:100vh}
h1,h2,h3,h4,h5,h6{font-family:var(--heading-font);line-height:1.2;margin:0 0 .6em}
p{margin:0 0 1em}
a{color:var(--primary)}
img,video{max-width:100%;height:auto;border-radius:var(--radius)}
nav{display:flex;flex-wrap:wrap;gap:16px;align-items:center;padding:16px 24px}
nav>*{margin:0}
article{background:var(--surface);border-radius:var(--radius);padding:24px}
blockquote{margin:0 0 1em;padding-left:16px;border-left:4px solid var(--primary)}
hr{border:0;border-top:1px solid var(--muted);margin:24px 0}
form{display:grid;gap:12px;max-width:480px;margin:0 auto;padding:24px;text-align:start}
label{display:grid;gap:4px}
label.check{display:flex;gap:8px;align-items:center}
input,textarea,select,button{font:inherit;color:inherit}
input,textarea,select{width:100%;padding:10px;border:1px solid var(--muted);border-radius:var(--radius)}
input,textarea,select{background:var(--background)}
label.check input{width:auto}
button,a.button{display:inline-block;padding:12px 24px;border:0;border-radius:var(--radius);cursor:pointer}
button,a.button{background:var(--primary);color:var(--on-primary);text-decoration:none;font-weight:600}
.columns{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(220px,1fr))}
.placeholder{display:grid;place-items:center;min-height:160px;background:var(--surface);color:var(--muted)}
"""


def stylesheet(page: Page) -> str:
    """Return the CSS of a page; every name and value in it is one that state/styles.py lists."""
    rules = [_SHARED.strip(), _rule(":root", _tokens(page.theme))]
    # What is pinned comes first, so that an element's own style goes before the theme it keeps.
    for name, theme in page.pinned.items():
        own = {"background-color": "var(--background)", "color": "var(--text)", "font-family": "var(--font)"}
        rules.append(_rule(f"#{name}", _tokens(theme) | own))
    rules.extend(_rule(f"#{one.id}", one.style) for one, _ in walk(page.root) if one.style)
    return "\n".join(rules)


def _tokens(theme: Mapping[str, str]) -> dict[str, str]:
    return {f"--{name}": value for name, value in theme.items()}


def _rule(selector: str, style: Mapping[str, str]) -> str:
    return f"{selector}{{{';'.join(f'{name}:{value}' for name, value in style.items())}}}"
