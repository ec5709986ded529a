// Memory over time, drawn by plotly.js; reports of scripts begin with this file too.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
const bytes = (count) => {
  for (const [size, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (Math.abs(count) >= size) return `${(count / size).toFixed(2)} ${name}`;
  return `${Math.round(count)} B`;
};

const PALETTE = ["#2a6fdb", "#e07a1f", "#2e9e5b", "#b5479d", "#c9a227", "#1aa3a8", "#8758d1", "#d1495b", "#6b8e23",
  "#4f6d8f", "#a8653b", "#9aa5b1"];
const LAYOUT = { font: { family: "system-ui, sans-serif", size: 13, color: "#1c2430" }, paper_bgcolor: "white",
  plot_bgcolor: "#fafbfc", margin: { l: 230, r: 20, t: 10, b: 50 }, hoverlabel: { align: "left" } };
const CONFIG = { responsive: true, displaylogo: false, scrollZoom: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };

function memory() {
  const place = document.getElementById("memory");
  const { times, series } = data.memory;
  if (!times.length) return place.append(element("p", "empty", "No device memory was allocated while it was watched."));
  const traces = series.map(({ line, bytes: sizes }, index) => ({
    type: "scatter", mode: "lines", name: line, x: times, y: sizes, stackgroup: "all",
    line: { width: 0.5, shape: "hv", color: PALETTE[index % PALETTE.length] },
    hovertemplate: `${line}: %{customdata}<extra></extra>`, customdata: sizes.map(bytes) }));
  Plotly.newPlot(place, traces, { ...LAYOUT, height: 420, margin: { l: 80, r: 20, t: 10, b: 50 }, hovermode: "x unified",
    xaxis: { title: { text: "µs" }, gridcolor: "#e6eaef" },
    yaxis: { title: { text: "bytes allocated" }, exponentformat: "SI", gridcolor: "#e6eaef" },
    legend: { orientation: "h", y: -0.18 } }, CONFIG);
}

async function library() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (each) => each.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = element("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
}
