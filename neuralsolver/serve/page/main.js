// The views and the way between them.

import { el, icon } from "./dom.js";
import { getJson } from "./api.js";
import { loadColours } from "./panel.js";
import { showPrograms } from "./programs.js";
import { showResults } from "./results.js";
import { SensorsView } from "./sensors.js";
import { readAddress } from "./state.js";
import { WavesView } from "./waves.js";
import { WellsView } from "./wells.js";
import { Workbench } from "./workbench.js";

const main = document.getElementById("main");
let models = null;
let open = null;

const VIEWS = {
  solve: ["Solve", (words) => new Workbench(main, words, models, false)],
  flows: ["Flows", (words) => new Workbench(main, words, models, true)],
  waves: ["Waves", (words) => new WavesView(main, words)],
  wells: ["Wells", (words) => new WellsView(main, words)],
  sensors: ["Sensors", (words) => new SensorsView(main, words)],
  results: ["Results", (words) => showResults(main, words)],
  programs: ["API", () => showPrograms(main)],
};

async function show() {
  const { view, words } = readAddress();
  const known = VIEWS[view] ? view : "solve";
  open?.close?.();
  open = null;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  delete main.dataset.state;
  main.dataset.view = known;
  try {
    open = await VIEWS[known][1](words);
    document.title = `${VIEWS[known][0]} · neuralsolver`;
  } catch (error) {
    main.replaceChildren(el("p", { class: "verdict bad", role: "alert" }, error.message));
  }
}

function theme() {
  const stored = localStorage.getItem("theme");
  document.getElementById("theme").replaceChildren(icon("theme"));
  if (stored) document.documentElement.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  });
}

async function begin() {
  theme();
  document.getElementById("views").append(...Object.entries(VIEWS).map(([view, [title]]) =>
    el("a", { href: `#/${view}`, "data-view": view }, title)));
  try {
    [models] = await Promise.all([getJson("models"), loadColours()]);
  } catch (error) {
    main.replaceChildren(el("p", { class: "verdict bad", role: "alert" }, `The server does not answer: ${error.message}`));
    return;
  }
  addEventListener("hashchange", show);
  await show();
}

begin();
