const launches = (count) => `${count} launch${count === 1 ? "" : "es"}`;
const microseconds = (us) =>
  us >= 1e6 ? `${(us / 1e6).toFixed(2)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${us.toFixed(2)} µs`;
const number = (value) => {
  if (Math.abs(value) >= 1e5) return value.toExponential(2);
  return Number.isInteger(value) ? String(value) : value.toPrecision(4).replace(/\.?0+$/, "");
};
const shown = (name, value) => {
  if (value === undefined || value === null) return "";
  if (typeof value !== "number") return Array.isArray(value) ? value.join(" × ") : String(value);
  if (name.endsWith("_us")) return microseconds(value);
  if (name.includes("bytes") || name === "memory" || name === "shared_memory") return bytes(value);
  if (["occupancy", "l1_hit_rate", "l2_hit_rate", "sampled", "sample_error", "regular", "repeated"].includes(name))
    return `${(100 * value).toFixed(1)} %`;
  return number(value);
};

function head() {
  document.getElementById("title").textContent = `Profile of ${data.name}`;
  const source = document.getElementById("source");
  source.textContent = data.device_times ? `Times of devices are ${data.device_times}.` : "No device was used.";
  source.classList.toggle("modelled", data.device_times.startsWith("modelled"));
  const totals = document.getElementById("totals");
  for (const [name, value] of Object.entries(data.totals)) {
    const box = element("div", "total");
    box.title = data.units[name] || "";
    box.append(element("b", "", shown(name, value)), element("span", "", name.replaceAll("_", " ")));
    totals.append(box);
  }
  for (const each of data.processes) {
    const line = `${each.process}, which it started: ${launches(each.launches)}, ${microseconds(each.device_us)} of devices`;
    document.querySelector("header").append(element("p", "source", line));
  }
  for (const sentence of data.over) document.querySelector("header").append(element("p", "over", sentence));
}

function advice() {
  const place = document.getElementById("advice");
  const total = data.kernels.reduce((sum, kernel) => sum + kernel.total_us, 0);
  const told = data.kernels.filter((kernel) => kernel.advice.length).slice(0, 8);
  if (!told.length) place.append(element("p", "empty", "Nothing is known of what bounds the kernels of this run."));
  for (const kernel of told) {
    const box = element("div", "kernel");
    const title = element("h3", "", kernel.name);
    const share = ` ${microseconds(kernel.total_us)}, ${((100 * kernel.total_us) / total).toFixed(1)} % of kernel time, ${launches(kernel.launches)}`;
    title.append(element("span", "share", share));
    const list = element("ul");
    for (const sentence of kernel.advice) list.append(element("li", "", sentence));
    box.append(title, list);
    const where = [kernel.module, kernel.node, kernel.line].filter(Boolean).join(" · ");
    if (where) box.append(element("div", "where", where));
    place.append(box);
  }
}

const OF_KIND = { gpu_memcpy: "#c9a227", gpu_memset: "#9aa5b1", cpu_op: "#7fa8e8", autograd_node: "#d9a3cc",
  module: "#8fcfa9", user_annotation: "#e8b78a", step: "#c3cad3" };
function whole(rows) {
  let [low, high] = [Infinity, 0];
  for (const { bars } of rows)
    for (const bar of bars) {
      low = Math.min(low, bar.start);
      high = Math.max(high, bar.start + bar.us);
    }
  return [low, high];
}

// Where devices are busiest: compiling and the like in a first step would leave of them a line a pixel wide.
function busiest(rows) {
  const [low, high] = whole(rows);
  const bars = rows.filter(({ row }) => row.startsWith("GPU")).flatMap((row) => row.bars);
  const kernels = bars.filter((bar) => bar.kind === "kernel").sort((a, b) => a.start - b.start);
  if (!kernels.length) return [low, high];
  const count = Math.min(40, kernels.length);
  let [start, width] = [low, Infinity];
  for (let first = 0; first + count <= kernels.length; first++) {
    const last = kernels[first + count - 1];
    const span = last.start + last.us - kernels[first].start;
    if (span < width) [start, width] = [kernels[first].start, span];
  }
  return [start - 0.05 * width, start + 1.05 * width];
}

function timeline() {
  const place = document.getElementById("timeline");
  const rows = data.timeline.rows;
  if (!rows.length) return place.append(element("p", "empty", "Nothing ran."));
  const colours = new Map();
  const colour = (bar) => {
    if (OF_KIND[bar.kind]) return OF_KIND[bar.kind];
    if (!colours.has(bar.name)) colours.set(bar.name, PALETTE[colours.size % PALETTE.length]);
    return colours.get(bar.name);
  };
  const traces = rows.map(({ row, bars }) => ({
    type: "bar", orientation: "h", name: row, y: bars.map(() => row), base: bars.map((bar) => bar.start),
    x: bars.map((bar) => bar.us), width: 0.75, offset: -0.375,
    marker: { color: bars.map(colour), line: { width: row.startsWith("GPU") ? 0 : 0.5, color: "white" } },
    text: bars.map((bar) => bar.name), textposition: "inside", insidetextanchor: "middle",
    insidetextfont: { size: 11 }, constraintext: "inside",
    hovertext: bars.map((bar) => [`<b>${bar.name}</b>`, microseconds(bar.us), ...bar.more].join("<br>")),
    hoverinfo: "text", showlegend: false,
  }));
  const layout = { ...LAYOUT, barmode: "overlay", height: 90 + 34 * rows.length,
    xaxis: { title: { text: "µs" }, zeroline: false, rangeslider: { visible: false }, gridcolor: "#e6eaef",
      range: busiest(rows) },
    yaxis: { autorange: "reversed", automargin: true, fixedrange: true, categoryarray: rows.map(({ row }) => row) },
    uniformtext: { mode: "hide", minsize: 9 } };
  Plotly.newPlot(place, traces, layout, CONFIG);
  const [first, last] = [layout.xaxis.range, whole(rows)];
  const zoom = (text, range) => {
    const button = element("button", "", text);
    button.addEventListener("click", () => Plotly.relayout(place, { "xaxis.range": range.slice() }));
    return button;
  };
  const tools = element("div", "tools");
  tools.append(zoom("busiest part of the devices", first), zoom("all of it", last));
  place.before(tools);
  if (data.timeline.left_out)
    place.after(element("p", "hint", `${data.timeline.left_out} short bars are left out; the trace file has all.`));
}

function roofline() {
  const place = document.getElementById("roofline");
  const { points, bandwidth, peaks, device } = data.roofline;
  if (!points.length) return place.append(element("p", "empty", "No kernel with floating point operations ran."));
  const total = points.reduce((sum, point) => sum + point.us, 0);
  const intensities = points.map((point) => point.intensity);
  const low = Math.min(...intensities, 0.05) / 2;
  const highest = Math.max(...Object.values(peaks));
  const high = Math.max(...intensities, highest / bandwidth) * 4;
  const roofs = Object.entries(peaks).map(([name, peak], index) => {
    const ridge = peak / bandwidth;
    return { type: "scatter", mode: "lines", name: `${name}: ${number(peak / 1e12)} TFLOP/s`,
      x: [low, ridge, high], y: [low * bandwidth, peak, peak], line: { color: ["#5b6675", "#1c2430"][index], width: 2 },
      hoverinfo: "name" };
  });
  const dots = { type: "scatter", mode: "markers+text", name: "kernels", x: intensities,
    y: points.map((point) => point.rate), text: points.map((point, index) => (index < 8 ? point.name.slice(0, 26) : "")),
    textposition: "top center", textfont: { size: 11 },
    marker: { size: points.map((point) => 8 + 44 * Math.sqrt(point.us / total)), color: PALETTE[0], opacity: 0.65,
      line: { color: "white", width: 1 } },
    hovertext: points.map((point) => `<b>${point.name}</b><br>${number(point.intensity)} FLOP/B, ` +
      `${number(point.rate / 1e12)} TFLOP/s<br>${microseconds(point.us)} in ${launches(point.launches)}<br>bound by ${point.bound}`),
    hoverinfo: "text" };
  const axis = { type: "log", gridcolor: "#e6eaef", exponentformat: "power" };
  Plotly.newPlot(place, [...roofs, dots], { ...LAYOUT, height: 480, margin: { l: 80, r: 20, t: 30, b: 60 },
    title: { text: `${device}: DRAM ${number(bandwidth / 1e12)} TB/s`, font: { size: 13 } },
    xaxis: { ...axis, title: { text: "FLOP per byte of DRAM" } }, yaxis: { ...axis, title: { text: "FLOP per second" } },
    legend: { x: 0.01, y: 0.99, bgcolor: "rgba(255,255,255,0.8)" } }, CONFIG);
}

function sortable(place, rows, columns, first) {
  if (!rows.length) return place.append(element("p", "empty", "There are none."));
  const tools = element("div", "tools");
  const search = element("input");
  search.type = "search";
  search.placeholder = "filter: a part of the name, or metric>number";
  const counted = element("label");
  tools.append(search, counted);
  const table = element("table"), thead = element("thead"), tbody = element("tbody"), headRow = element("tr");
  let sorted = first, descending = true;
  const fits = (row) => {
    const text = search.value.trim();
    const limit = text.match(/^(\w+)\s*(>=|<=|>|<)\s*(-?[\d.]+(?:e[+-]?\d+)?)$/i);
    if (!limit) return row.name.toLowerCase().includes(text.toLowerCase());
    const value = row[limit[1]], bound = Number(limit[3]);
    if (typeof value !== "number") return false;
    return { ">": value > bound, "<": value < bound, ">=": value >= bound, "<=": value <= bound }[limit[2]];
  };
  const fill = () => {
    const kept = rows.filter(fits).sort((a, b) => {
      const [x, y] = [a[sorted] ?? -Infinity, b[sorted] ?? -Infinity];
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return descending ? -order : order;
    });
    counted.textContent = `${kept.length} of ${rows.length}`;
    tbody.replaceChildren(...kept.map((row) => {
      const line = element("tr");
      for (const column of columns) {
        const cell = element("td", typeof row[column] === "string" ? "text" : "", shown(column, row[column]));
        cell.title = column === "name" ? row.name : "";
        line.append(cell);
      }
      return line;
    }));
    for (const cell of headRow.children)
      cell.setAttribute("aria-sort", cell.dataset.column !== sorted ? "none" : descending ? "descending" : "ascending");
  };
  for (const column of columns) {
    const cell = element("th", "", column.replaceAll("_", " "));
    cell.dataset.column = column;
    cell.title = data.units[column] || "";
    cell.addEventListener("click", () => {
      descending = sorted === column ? !descending : true;
      sorted = column;
      fill();
    });
    headRow.append(cell);
  }
  search.addEventListener("input", fill);
  thead.append(headRow);
  table.append(thead, tbody);
  const scroll = element("div", "scroll");
  scroll.append(table);
  place.append(tools, scroll);
  fill();
}

async function draw() {
  head();
  advice();
  const preferred = ["name", "launches", "total_us", "modelled_us", "bound", "sectors_over_needed", "moved_over_distinct",
    "occupancy", "registers"];
  const all = new Set(data.kernels.flatMap((kernel) => Object.keys(kernel)));
  const columns = [...preferred, ...[...all].filter((name) => !preferred.includes(name) &&
    !["advice", "limits_us", "category", "grid", "block"].includes(name))].filter((name) => all.has(name));
  sortable(document.getElementById("kernels"), data.kernels, columns, "total_us");
  sortable(document.getElementById("operations"), data.operations,
    ["name", "calls", "self_host_us", "host_us", "self_device_us", "device_us", "memory"], "device_us");
  await library();
  timeline();
  roofline();
  memory();
  document.body.dataset.drawn = "yes";
}
draw();
