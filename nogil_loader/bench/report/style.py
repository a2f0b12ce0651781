"""The style sheet of the page: one column on a phone, several on a desk, plain on paper."""

from __future__ import annotations

from nogil_loader.bench.report.theme import DARK, LIGHT, Theme, drawing_style

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:1240px;margin:0 auto;padding:16px 12px}
h1,h2{line-height:1.25;margin:0}
h1{font-size:1.5rem;letter-spacing:-.01em}
h2{font-size:1.05rem;margin-bottom:8px}
p{margin:8px 0}
section>:last-child{margin-bottom:0}
.over{color:var(--muted);font-size:.875rem;margin:0 0 4px}
.lead{font-size:1.1rem;max-width:62rem}
.notes{color:var(--muted);padding-left:1.1em;margin:8px 0;max-width:62rem}
pre,code{font:.875rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{white-space:pre-wrap;background:var(--card);border:1px solid var(--grid);border-radius:6px}
pre{padding:8px 10px;margin:8px 0}
.use{border-left:4px solid var(--accent)}
section{background:var(--card);border:1px solid var(--grid);border-radius:8px;padding:12px;margin:12px 0}
figure{margin:0}
figure svg{display:block;width:100%;height:auto}
figcaption,.small{color:var(--muted);font-size:.875rem;margin-top:8px}
.scroll{overflow-x:auto;overflow-wrap:normal}
.scroll:focus-visible{outline:2px solid var(--accent)}
table{width:100%;border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px 5px 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
thead th{color:var(--muted);font-weight:400;vertical-align:bottom;white-space:normal;overflow-wrap:normal}
tr>:first-child{text-align:left;position:sticky;left:0;background:var(--card)}
thead th:first-child{min-width:6rem}
tbody th{font-weight:400;white-space:normal;max-width:11rem}
.chosen>*{border-bottom:2px solid var(--accent)}
.tag{display:block;color:var(--accent);font-weight:600}
td.failed{text-align:left;color:var(--muted)}
.failures{padding:0;list-style:none;margin:0}
dl{display:grid;grid-template-columns:fit-content(9rem) minmax(0,1fr);gap:4px 12px}
dl{margin:12px 0 0;font-size:.875rem}
dt{color:var(--muted)}
dd{margin:0;min-width:0}
@media (max-width:359px){
main{padding:12px 4px}
section{padding:10px 8px}
}
@media (min-width:760px){
main{padding:24px}
h1{font-size:2rem}
.figures{columns:2;column-gap:16px}
.figures section{break-inside:avoid;margin:0 0 16px}
section{padding:16px}
dl{grid-template-columns:repeat(2,fit-content(9rem) minmax(0,1fr))}
}
@media (min-width:1180px){.figures{columns:3}}
@media print{
body{background:none}
main{max-width:none;padding:0}
.figures{columns:2;column-gap:12px}
.figures section,tr,li,dd{break-inside:avoid}
h2{break-after:avoid}
.scroll{overflow:visible}
tr>:first-child{position:static}
table{font-size:.6rem}
th,td{padding-right:4px}
svg *{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""


def page_style() -> str:
    """Return all rules that the page needs, those of its drawings included."""
    return "\n".join(
        (
            f":root{{color-scheme:light dark;{_variables(LIGHT)}}}",
            f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}",
            _RULES.strip(),
            drawing_style(),
        )
    )


def _variables(theme: Theme) -> str:
    names = ("page", "card", "ink", "muted", "grid", "accent")
    return ";".join(f"--{name}:{getattr(theme, name)}" for name in names)
