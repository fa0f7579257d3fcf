"""The style sheet of the page: light and dark, wide and narrow, screen and paper.

Texts have a contrast of at least 4.5 to 1, and what tells a state apart 3 to 1. Nothing is told
by colour alone.
"""

from __future__ import annotations

LIGHT = {
    "paper": "#f6f7f9",
    "card": "#fff",
    "ink": "#1b2028",
    "faint": "#566070",
    "rule": "#d9dee5",
    "link": "#0b57c2",
    "good": "#11692f",
    "good-paper": "#e3f4e8",
    "note": "#35507a",
    "note-paper": "#e7edf6",
    "warn": "#8a5200",
    "warn-paper": "#fdf0d5",
    "bad": "#b3161f",
    "bad-paper": "#fde8e8",
    "used": "#2459b3",
    "free": "#7d8896",
    "h0": "#cfe0fb",
    "h1": "#fbe0bf",
    "h2": "#d3efd0",
    "h3": "#ead6f5",
    "h4": "#c8edf0",
    "h5": "#f9d5e3",
    "nv": "#6d4fc4",
    "pcie": "#737f8d",
}
DARK = {
    "paper": "#0f1318",
    "card": "#171c23",
    "ink": "#e6ebf1",
    "faint": "#9da8b6",
    "rule": "#2c343f",
    "link": "#7ab2ff",
    "good": "#59c878",
    "good-paper": "#12301d",
    "note": "#9dbbe8",
    "note-paper": "#1b2839",
    "warn": "#f0b24a",
    "warn-paper": "#372709",
    "bad": "#ff8a85",
    "bad-paper": "#421a1c",
    "used": "#6ea3f5",
    "free": "#7b8696",
    "h0": "#234373",
    "h1": "#5e431b",
    "h2": "#24512b",
    "h3": "#4c2f63",
    "h4": "#164d54",
    "h5": "#632b43",
    "nv": "#a993f0",
    "pcie": "#8692a1",
}

RULES = """\
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif}
body>header,main,body>footer{max-width:72rem;margin:0 auto;padding:0 1rem}
h1,h2,h3,p,ul,dl,dd{margin:0;padding:0}
ul{list-style:none}
a{color:var(--link)}
b{font-weight:600}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
.vh,caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);
white-space:nowrap}
.skip{position:absolute;left:1rem;top:-4rem;padding:.4rem .8rem;background:var(--card);z-index:1}
.skip:focus{top:.5rem}
.faint,.aside,.place,dt,thead th{color:var(--faint)}
.aside{font-size:.867rem}

body>header{display:flex;flex-wrap:wrap;gap:.35rem 1rem;align-items:center;
padding-top:.9rem;padding-bottom:.7rem}
#node{display:flex;flex-wrap:wrap;gap:.1rem 1rem;align-items:baseline;flex:1 1 9rem}
#node b{font-size:1.2rem;overflow-wrap:anywhere}
button{font:inherit;font-size:.867rem;color:var(--ink);background:var(--card);
border:1px solid var(--free);border-radius:6px;padding:.25rem .7rem;cursor:pointer}
#alarm{flex:1 0 100%;padding:.5rem .8rem;border-radius:6px;font-weight:600;
background:var(--warn-paper);color:var(--warn);border:2px solid var(--warn)}
[hidden]{display:none!important}
.stale #verdict{filter:grayscale(1)}

#verdict,section{background:var(--card);border:1px solid var(--rule);border-radius:10px;
padding:1rem 1.15rem;margin-bottom:1rem}
#verdict{border-left:.5rem solid var(--c);background:var(--p);
display:grid;grid-template-columns:auto 1fr;gap:.2rem .9rem}
.good{--c:var(--good);--p:var(--good-paper)}
.note{--c:var(--note);--p:var(--note-paper)}
.warn{--c:var(--warn);--p:var(--warn-paper)}
.bad{--c:var(--bad);--p:var(--bad-paper)}
#verdict>.sign{width:2.5rem;height:2.5rem;font-size:1.5rem;line-height:2.5rem;grid-row:span 2}
.sign{display:inline-block;width:1.25rem;height:1.25rem;line-height:1.25rem;border-radius:50%;
background:var(--c);color:var(--card);text-align:center;font-weight:700;font-size:.8rem}
h1{font-size:1.6rem;line-height:1.25;font-weight:650;color:var(--c);overflow-wrap:anywhere}
#verdict>*{grid-column:2}
#verdict>.sign{grid-column:1}
.points{margin-top:.3rem}
.points p{display:grid;grid-template-columns:1.25rem 1fr;gap:.5rem;padding:.15rem 0;
overflow-wrap:anywhere}

section>header{display:flex;flex-wrap:wrap;gap:0 1rem;align-items:baseline;color:var(--faint)}
h3{font-size:1rem;font-weight:650}
section>h3{margin-top:.6rem}
h2{font-size:1.1rem;font-weight:650;color:var(--ink);margin-bottom:.5rem}
.facts{display:flex;flex-wrap:wrap;gap:.1rem 1.5rem}
.facts div,.gpus dl div{display:flex;gap:.5rem}
dd{overflow-wrap:anywhere;min-width:0}
.badge{color:var(--c);font-weight:600}
.badge.good{font-weight:400}

.gpus>li{position:relative;display:grid;grid-template-columns:4.2rem 11rem minmax(0,1fr) minmax(0,12rem) 4.2rem;
gap:.15rem 1rem;padding:.55rem 0;border-top:1px solid var(--rule);align-items:start}
.gpus>li>*{grid-column:2/-1}
.gpus>li>h3{grid-column:1}
.gpus>li>.badge{grid-column:2}
.gpus>li>.use{grid-column:3}
.gpus>li>.place{grid-column:4;text-align:right;font-size:.867rem}
.gpus>li.bad{background:var(--p);box-shadow:-1.15rem 0 var(--p),1.15rem 0 var(--p)}
.use{display:flex;flex-wrap:wrap;gap:.1rem .8rem;overflow-wrap:anywhere}
.free{color:var(--faint)}
.held::before{content:"";display:inline-block;width:.65rem;height:.65rem;margin-right:.45rem;
border-radius:2px;background:var(--used)}
.unread{color:var(--bad)}
.strip{max-width:100%;height:auto;align-self:center}
.strip path{stroke:var(--free);stroke-width:.26;stroke-dasharray:.72 .28;stroke-dashoffset:-.14}
.strip .u{stroke:var(--used);stroke-width:.84}
.strip.bar path{stroke-dasharray:none}
.bad .strip path{stroke:var(--bad)}

.gpus>li>details>summary{position:absolute;right:0;top:.4rem}
summary{padding:.15rem 0;cursor:pointer;color:var(--link);width:fit-content;font-size:.867rem}
details{margin-top:.3rem}
details>*+*{margin-top:.4rem}
.gpus details{margin:0}
table{border-collapse:collapse;width:100%;position:relative}
th,td{text-align:left;font-weight:400;padding:.22rem .9rem .22rem 0;vertical-align:baseline;
border-top:1px solid var(--rule);overflow-wrap:anywhere}
thead th{font-size:.8rem;border:0;overflow-wrap:normal}
table p{display:inline}
.resources tbody th{font-weight:600}
.resources :is(th,td){padding-right:2.5rem}
.resources :is(th,td):nth-child(n+2):nth-child(-n+4){text-align:right;width:5rem}
.settings,.log{font-size:.867rem}
h4{margin:.4rem 0 0;font-size:.867rem;font-weight:600}
.holders{columns:17rem auto;font-size:.867rem;font-variant-numeric:tabular-nums;margin:.2rem 0}
.holders li{display:flex;gap:.7rem;justify-content:space-between;break-inside:avoid;
overflow-wrap:anywhere;border-bottom:1px solid var(--rule)}
.settings td,.settings tbody th{font-family:ui-monospace,"SF Mono",Menlo,Consolas,
"DejaVu Sans Mono",monospace;font-size:.8rem}
.log tbody th{font-variant-numeric:tabular-nums;white-space:nowrap}
.log td:nth-child(2){white-space:nowrap}
.log td:nth-child(3){width:70%}
.log td:last-child{white-space:nowrap;color:var(--faint)}
.mig{display:block;margin:.15rem 0;font-size:.933rem}
.mig tbody{display:block}
.mig thead{position:absolute;clip-path:inset(50%)}
.mig tbody tr{display:grid;grid-template-columns:3rem 8rem minmax(8rem,1fr) minmax(0,2fr) 5rem 7rem;
gap:0 1rem;border-top:1px solid var(--rule)}
.mig :is(th,td){border:0;padding-right:0}

.figure{display:flex;flex-wrap:wrap;gap:.5rem 2rem;align-items:center}
.circle{max-width:100%;height:auto;flex:0 1 auto}
.legend{flex:1 1 18rem;min-width:0;overflow-wrap:anywhere}
.legend ul+ul{margin-top:.8rem}
.legend li{padding:.1rem 0}
.sample{margin-right:.5rem;vertical-align:-1px}
.nv,.pcie{fill:none;stroke:var(--nv)}
.pcie{stroke:var(--pcie);stroke-dasharray:5 3}
.arc{fill:none;stroke:var(--pcie);stroke-width:3;stroke-linecap:round}
.circle text{text-anchor:middle;fill:var(--ink);font-size:11.5px}
.circle .index{font-size:16px;font-weight:650}
.circle .numa{fill:var(--faint)}
.hub,.gpu circle{fill:var(--card);stroke:var(--free);stroke-width:1.5}
.gpu.part circle{fill:var(--h0);stroke:var(--used)}
.gpu.away circle{stroke-dasharray:3 3}
.h0{--h:var(--h0)}.h1{--h:var(--h1)}.h2{--h:var(--h2)}
.h3{--h:var(--h3)}.h4{--h:var(--h4)}.h5{--h:var(--h5)}
.gpu[class*=h] circle{fill:var(--h);stroke:var(--ink)}
.gpu.bad circle{stroke:var(--bad);stroke-width:3}
.gpu .sign{fill:var(--bad)!important;stroke:var(--card)!important;stroke-width:1.5!important}
.circle .cross{fill:var(--card);font-weight:700;font-size:11px}
.use .letter{margin-right:.35rem}
.letter{display:inline-block;min-width:1.4rem;text-align:center;border-radius:4px;
background:var(--h);border:1px solid var(--ink)}
.scroll{overflow-x:auto}
.matrix{width:auto;font-size:.867rem}
.matrix td,.matrix th{padding-right:.7rem;white-space:nowrap}

footer{color:var(--faint);font-size:.867rem;padding-bottom:1.5rem!important}

@media screen and (max-width:46rem){
#verdict>.facts,#verdict>.points{grid-column:1/-1}
.gpus>li>details>summary{position:static}
h1{font-size:1.3rem}
#verdict,section{padding:.8rem .9rem;border-radius:8px}
.gpus>li{grid-template-columns:4.2rem minmax(0,1fr)}
.gpus>li>*,.gpus>li>.use{grid-column:1/-1}
.gpus>li>.badge{grid-column:2;text-align:right}
.gpus>li>.place{grid-column:1/-1;text-align:left}
.gpus>li.bad{box-shadow:-.9rem 0 var(--p),.9rem 0 var(--p)}
.resources thead,.log thead,.mps thead{position:absolute;clip-path:inset(50%)}
.mig tbody tr{grid-template-columns:3rem 1fr auto}
.mig td:nth-child(4){grid-column:1/-1}
.mig td:nth-child(5){grid-column:1/3}
.resources tr,.log tr,.mps tr{display:flex;flex-wrap:wrap;gap:0 .8rem;padding:.3rem 0;
border-top:1px solid var(--rule)}
.resources :is(th,td),.log :is(th,td),.mps :is(th,td){border:0;padding:0}
.resources :is(th,td):nth-child(n):nth-child(-n+9){text-align:left;width:auto}
.resources tbody th{flex:1 0 100%}
.resources td:nth-child(2)::before{content:"in use "}
.resources td:nth-child(3)::before{content:"allocatable "}
.resources td:nth-child(4)::before{content:"capacity "}
.resources td:nth-child(5)::before{content:"sharing "}
.log td:nth-child(3){flex:1 0 100%;order:1}
.settings thead{display:none}
.settings tr{display:block;padding:.3rem 0;border-top:1px solid var(--rule)}
.settings :is(th,td){display:block;border:0;padding:0}
.settings td{padding-left:1rem}
}
@media print{
:root{--paper:#fff;--card:#fff}
html{font-size:12px}
body{font-size:11px}
button,.skip,footer{display:none}
#verdict,section{border-radius:0;padding:.5rem .7rem}
.gpus>li{grid-template-columns:4.2rem 8rem minmax(0,1fr) auto}
.gpus>li.bad{box-shadow:none}
#verdict,.gpus>li,.figure,tr{break-inside:avoid}
h2{break-after:avoid}
details:not([open]){display:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
@media (prefers-reduced-motion:reduce){*{transition:none!important;animation:none!important}}
@media (forced-colors:active){.sign,.held::before{forced-color-adjust:none}}
"""


def style() -> str:
    """The text of the style element."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in palette.items())
        for palette in (LIGHT, DARK)
    )
    # Paper is white: whatever is printed is printed in the light colours.
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{RULES}"
    )
