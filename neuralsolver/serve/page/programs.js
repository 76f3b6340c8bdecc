// For programs: the description of the service as a page, made of /openapi.json.

import { el } from "./dom.js";
import { getJson } from "./api.js";

export async function showPrograms(place) {
  const description = await getJson("openapi.json");
  const address = document.baseURI.split("#")[0];
  const example = [
    `curl ${address}solve -H 'Content-Type: application/json' \\\n     -d '{"equation": "helmholtz", "constants": {"wavenumber": 1.5}, "seed": 3}'`,
    `curl '${address}solve?equation=helmholtz&wavenumber=1.5' -H 'Content-Type: application/x-npy' \\\n     -H 'Accept: application/x-npy' --data-binary @f.npy -o u.npy`,
  ];
  const routes = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { description: about, responses }]) => el("tr", {},
      el("th", { scope: "row" }, el("code", {}, `${method.toUpperCase()} ${path}`)),
      el("td", {}, about ?? ""),
      el("td", {}, Object.keys(responses).join(", ")))));
  const fields = Object.entries(description.paths["/solve"].post.requestBody.content["application/json"].schema.properties)
    .map(([name, { description: about, default: usual }]) => el("tr", {},
      el("th", { scope: "row" }, el("code", {}, name)),
      el("td", {}, about ?? ""),
      el("td", {}, usual === undefined || usual === null ? "" : JSON.stringify(usual))));
  place.replaceChildren(
    el("div", { class: "intro" }, el("h1", {}, "For programs"),
      el("p", {}, "An array in, an array out: as JSON or as .npy, with a status, a residual and, where it can be proven, a bound on the error.")),
    el("pre", { tabindex: 0 }, example.join("\n\n")),
    el("h2", {}, "What POST /solve reads"), table(["Field", "Meaning", "Usually"], fields),
    el("h2", {}, "Addresses"), table(["Address", "What it does", "Answers"], routes),
    el("p", {}, "The whole description, for generators of clients: ", el("a", { href: "openapi.json" }, "openapi.json"),
      ". State: ", el("a", { href: "healthz" }, "healthz"), ", ", el("a", { href: "metrics" }, "metrics"), "."));
}

function table(headings, rows) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": headings[0] },
    el("table", {}, el("thead", {}, el("tr", {}, headings.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows)));
}
