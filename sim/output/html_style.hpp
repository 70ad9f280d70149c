// The style sheet of the HTML report: light and dark as the reader's system has it, from a phone's width up.
#pragma once

namespace foretrain {

inline constexpr const char* html_style = R"(
:root { --page: #ffffff; --ink: #1a1c1e; --quiet: #5c6370; --rule: #d9dce1; --warn: #9a5b00;
  --c0: #7fb3e6; --c1: #2f7fc9; --c2: #16456f; --c3: #e98b2a; --c4: #c7579a; --c5: #8c93a0; --c6: #3f9e6c; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #16181c; --ink: #e7e9ec; --quiet: #a0a7b4; --rule: #363b44; --warn: #f0b35a;
    --c0: #a8cdf0; --c1: #5b9fdc; --c2: #33689a; --c3: #f2a04a; --c4: #dc7fb6; --c5: #79808d; --c6: #5dbb8a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
.scroll { overflow-x: auto; }
.scroll + .scroll { margin-top: 1rem; } .paper { display: none; }
@media screen { .scroll { background: linear-gradient(to right, var(--page) 40%, transparent) left / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--page) 40%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(to right, var(--rule), transparent) left / .8rem 100% no-repeat, linear-gradient(to left, var(--rule), transparent) right / .8rem 100% no-repeat; } }
.tall { max-height: 34rem; overflow-y: auto; } .tall th { position: sticky; top: 0; background: var(--page); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 8.5rem; }
th { color: var(--quiet); font-weight: 600; } td.t { white-space: normal; min-width: 11rem; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
.note, footer { color: var(--quiet); font-size: .88rem; } .warning { color: var(--warn); }
.verdict { font-size: 1.05rem; }
.legend span { display: inline-block; margin-right: .9rem; font-size: .9rem; overflow-wrap: anywhere; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border-radius: 2px; print-color-adjust: exact; }
.legend [class^="s"], .legend .ideal { width: 1.4em; height: .2em; vertical-align: .25em; border-radius: 0; }
.legend .ideal { height: 0; border-top: 2px dashed var(--quiet); } .legend .dot { border-radius: 50%; }
.bars > div { display: grid; grid-template-columns: 1fr auto; column-gap: 1rem; align-items: end; margin-bottom: .6rem; break-inside: avoid; }
.bars span { overflow-wrap: anywhere; } .bars .v { color: var(--quiet); } .bars svg { height: 1.1rem; grid-column: 1 / -1; }
details { border-top: 1px solid var(--rule); padding: .5rem 0; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; } dd { margin: 0; } dt { color: var(--quiet); }
svg { width: 100%; height: auto; display: block; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); } svg text.v { fill: var(--quiet); }
.c0,.b0{fill:var(--c0);background:var(--c0)} .c1,.b1{fill:var(--c1);background:var(--c1)}
.c2,.b2{fill:var(--c2);background:var(--c2)} .c3,.b3{fill:var(--c3);background:var(--c3)}
.c4,.b4{fill:var(--c4);background:var(--c4)} .c5,.b5{fill:var(--c5);background:var(--c5)}
.c6,.b6{fill:var(--c6);background:var(--c6)}
.equal { stroke: var(--ink); } .bound { stroke: var(--quiet); stroke-dasharray: 4 4; } .faint { stroke: var(--quiet); opacity: .55; }
details.data { border: 0; padding: .1rem 0 .6rem; } details.data summary { font-weight: 400; font-size: .85rem; color: var(--quiet); }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--c1); outline-offset: 2px; }
.grid { stroke: var(--rule); } .whisker { stroke: var(--ink); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
polyline { fill: none; stroke-width: 2.5; } .ideal { stroke: var(--quiet); stroke-dasharray: 5 5; }
.s0{stroke:var(--c1);background:var(--c1)} .s1{stroke:var(--c3);background:var(--c3)} .s2{stroke:var(--c6);background:var(--c6)} .s3{stroke:var(--c4);background:var(--c4)} .s4{stroke:var(--c5);background:var(--c5)} .s5{stroke:var(--c0);background:var(--c0)}
circle.s0{fill:var(--c1)} circle.s1{fill:var(--c3)} circle.s2{fill:var(--c6)} circle.s3{fill:var(--c4)}
circle.s4{fill:var(--c5)} circle.s5{fill:var(--c0)}
@media print { .scroll { overflow: visible; max-height: none; } .tall th { position: static; } th, td { white-space: normal; padding-block: .1rem; }
  table { font-size: .75rem; } .tall tr:nth-child(n+121), .screen, details:not(.printed) { display: none; } .paper { display: block; }
  svg, tr, dl { break-inside: avoid; }
  h1, h2, h3, summary, .legend { break-after: avoid; } main { max-width: none; padding: 0; } details.data { display: none; }
  details.printed::details-content { content-visibility: visible; block-size: auto; } }
@media (min-width: 62rem) { svg text { font-size: 10px; } }
@media (max-width: 30rem) { svg text { font-size: 22px; } h1 { font-size: 1.25rem; }
  table { font-size: .86rem; } th, td { padding-right: .45rem; } td:first-child { min-width: 7.5rem; } }
)";

}  // namespace foretrain
