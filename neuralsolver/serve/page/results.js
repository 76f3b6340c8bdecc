// What was measured: rows that can be sorted, tables, figures, each number with its row and command.

import { button, copy, el, number, time } from "./dom.js";
import { getJson } from "./api.js";
import { Chart } from "./chart.js";
import { readRows, readTables } from "./measured.js";

const COLUMNS = [
  ["regime", "Asked to solve", (row) => row.regime],
  ["method", "Method", (row) => row.method],
  ["error", "Error", (row) => number(row.error)],
  ["residual", "Residual (mean square)", (row) => number(row.residual)],
  ["steps", "Steps", (row) => number(row.steps)],
  ["seconds_batch_1", "Seconds", (row) => time(row.seconds_batch_1 ?? row.seconds ?? null)],
  ["samples", "Samples", (row) => String(row.samples ?? "–")],
  ["resolution", "Grid", (row) => (row.resolution ? `${row.resolution}²` : "–")],
];

export async function showResults(place, words) {
  const { folder, files } = await getJson("results");
  const experiments = files.filter((name) => name.endsWith(".jsonl")).map((name) => name.slice(0, -6));
  const name = words.get("name") || (experiments.includes("helmholtz") ? "helmholtz" : experiments[0]);
  const kind = words.get("show") || (words.has("row") ? "rows" : "tables");
  const go = (change) => (location.hash = `#/results?${new URLSearchParams({ ...Object.fromEntries(words), ...change })}`);
  const content = el("div", { class: "content" });
  place.replaceChildren(
    el("div", { class: "intro" }, el("h1", {}, "Results"),
      el("p", {}, "Every number here was measured by a command of this project and is a line of a file. Rows show both.")),
    tabs(kind, go),
    content);
  if (!files.length) {
    content.append(el("p", { class: "note" }, `There are no results in the folder “${folder}”. python -m paper evaluate measures them, ens serve --results FOLDER shows another folder.`));
    return;
  }
  if (kind === "figures") content.append(...figures(files.filter((each) => each.startsWith("figures/"))));
  else if (kind === "rows") await showRows(content, experiments, name, words, go);
  else showTables(content, await readTables(files), words.get("table"), go);
}

function tabs(kind, go) {
  return el("div", { class: "choice tabs", role: "group", "aria-label": "Kind of result" },
    [["tables", "Tables"], ["rows", "Rows"], ["figures", "Figures"]].map(([key, text]) =>
      button(text, () => go({ show: key }), { "aria-pressed": String(key === kind) })));
}

async function showRows(content, experiments, name, words, go) {
  const select = el("select", { "aria-label": "Experiment", onchange: () => go({ name: select.value, row: "" }) },
    experiments.map((each) => el("option", { value: each, selected: each === name }, each)));
  const filter = el("input", { type: "search", placeholder: "filter: fno, shift …", "aria-label": "Filter", value: words.get("filter") || "" });
  const detail = el("section", { class: "detail", "aria-live": "polite", "aria-label": "The chosen row" });
  const holder = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" });
  content.append(el("div", { class: "row" }, select, filter), detail, holder);
  const rows = await readRows(name);
  let [column, direction] = (words.get("sort") || "regime,1").split(",");
  direction = Number(direction) || 1;
  const remember = (change) => {
    for (const [key, value] of Object.entries(change)) words.set(key, value);
    history.replaceState(null, "", `#/results?${words}`);
  };
  const choose = (row) => {
    remember({ name, row: row.line });
    detail.replaceChildren(...describe(row));
  };
  const draw = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = rows.filter((row) => wanted.every((word) => `${row.regime} ${row.method}`.toLowerCase().includes(word)));
    chosen.sort((a, b) => direction * compare(a[column], b[column]) || a.line - b.line);
    holder.replaceChildren(table(chosen, column, direction, choose, (key) => {
      direction = key === column ? -direction : 1;
      column = key;
      remember({ sort: `${column},${direction}` });
      draw();
    }));
  };
  filter.addEventListener("input", () => { remember({ filter: filter.value }); draw(); });
  draw();
  const chosen = rows.find((row) => String(row.line) === words.get("row"));
  if (chosen) choose(chosen);
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" ? a - b : String(a).localeCompare(String(b));
}

function table(rows, column, direction, choose, sort) {
  const head = COLUMNS.map(([key, text]) => el("th", { scope: "col", "aria-sort": key === column ? (direction > 0 ? "ascending" : "descending") : "none" },
    button(key === column ? `${text} ${direction > 0 ? "↑" : "↓"}` : text, () => sort(key), { class: "sort" })));
  const body = rows.map((row) => el("tr", { "data-line": row.line }, COLUMNS.map(([key, , read]) => (
    key === "regime" || key === "method"
      ? el("td", {}, read(row))
      : el("td", {}, button(read(row), () => choose(row), { class: "cell", "aria-label": `${read(row)}: its row and command` }))))));
  return el("table", { class: "rows" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
}

function describe(row) {
  const { history: curve, ...rest } = row;
  const parts = [
    el("h2", {}, `${row.method}, ${row.regime}`),
    el("p", {}, `Line ${row.line} of ${row.file}, measured by`),
    el("div", { class: "row" }, el("code", { id: "row-command" }, row.command), button("Copy", () => copy(row.command, "Command"))),
  ];
  if (curve?.error?.length > 1) {
    const chart = new Chart("Error and residual", "mean over the samples, step by step; the residual as a root mean square of its first value");
    const first = Math.sqrt(curve.residual?.[0] || 1);
    chart.draw([
      { key: "residual", label: "residual", x: curve.step, y: (curve.residual ?? []).map((value) => (value === null ? null : Math.sqrt(value) / first)) },
      { key: "error", label: "error", main: true, x: curve.step, y: curve.error },
    ], "steps", null);
    parts.push(chart.root);
  }
  parts.push(el("details", {}, el("summary", {}, "The whole row"), el("pre", { tabindex: 0 }, JSON.stringify(rest, null, 1))));
  return parts;
}

function showTables(content, tables, chosen, go) {
  const { name, label, about, headings, cells } = tables.find((each) => each.name === chosen) ?? tables[0];
  const select = el("select", { "aria-label": "Table", onchange: () => go({ table: select.value }) },
    tables.map((each) => el("option", { value: each.name, selected: each.name === name }, each.label)));
  let column = -1;
  let direction = 1;
  const holder = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" });
  const draw = () => {
    const rows = cells.filter((row) => column < 0 || row.some((cell) => cell));
    if (column >= 0) rows.sort((a, b) => direction * compare(value(a[column]), value(b[column])));
    const head = headings.map((text, k) => el("th", { scope: "col", "aria-sort": k === column ? (direction > 0 ? "ascending" : "descending") : "none" },
      button(`${text || "–"}${k === column ? (direction > 0 ? " ↑" : " ↓") : ""}`, () => { direction = k === column ? -direction : 1; column = k; draw(); }, { class: "sort" })));
    holder.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))));
  };
  draw();
  content.append(el("div", { class: "row" }, select), el("h2", {}, label), el("p", {}, about),
    el("p", { class: "hint" }, "Written from the rows by: python -m paper report"), holder);
}

function value(text) {
  const parsed = Number.parseFloat(text);
  return Number.isNaN(parsed) ? text : parsed;
}

function figures(names) {
  return [el("div", { class: "figures" }, names.map((name) => el("figure", {},
    el("a", { href: `results/files/${name}`, target: "_blank", rel: "noopener" },
      el("img", { src: `results/files/${name}`, alt: `Figure: ${words(name)}`, loading: "lazy" })),
    el("figcaption", {}, words(name), el("span", { class: "hint" }, " · drawn by: python -m paper report")))))];
}

function words(name) {
  return name.replace(/^.*\/|\.\w+$/g, "").replaceAll("-", " ");
}
