// Measured results as they are on disk: rows, tables, and the command behind each.
// Nothing here computes: what a page shows is what a file says.

async function read(path) {
  const response = await fetch(`results/files/${path}`);
  return response.ok ? response.text() : "";
}

/** The rows of an experiment, each with its file, its line and the command that measures it again. */
export async function readRows(name) {
  const file = `${name}.jsonl`;
  const [text, readme] = await Promise.all([read(file), read("README.md")]);
  const documented = commandOf(readme, file) ?? "python -m paper evaluate NAME";
  return text.split("\n").flatMap((line, index) => {
    const row = parsed(line);
    if (!row) return [];
    const options = ["regime", "method"].filter((key) => key in row).map((key) => ` --${key} ${row[key]}`);
    const command = documented.replace("NAME", row.experiment ?? "NAME") + options.join("");
    return [{ ...row, file, line: index + 1, command }];
  });
}

/** A line that is no row is left out: a run may be writing it. */
function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** The command that the table in the folder's README names for a file. */
function commandOf(readme, file) {
  const line = readme.split("\n").find((each) => each.split("|")[1]?.includes(`\`${file}\``));
  return line?.split("|")[2].match(/`([^`]+)`/)?.[1];
}

/** Every table: the sections of tables/README.md, and the files beside it. */
export async function readTables(files) {
  const names = files.filter((name) => /^tables\/.*\.md$/.test(name));
  const texts = await Promise.all(names.map(read));
  return names.flatMap((name, k) => (name.endsWith("/README.md")
    ? texts[k].split(/^## /m).slice(1).map((section) => table(section.slice(section.indexOf("\n")), section.split("\n")[0]))
    : [table(texts[k], name.slice(7, -3))]));
}

/** A table, the text before it, and how that begins, which is what it is called. */
function table(text, heading) {
  const lines = text.trim().split("\n");
  const first = Math.max(0, lines.findIndex((line) => line.startsWith("|")));
  const about = lines.slice(0, first).join(" ").trim();
  const end = lines.findIndex((line, k) => k > first && !line.startsWith("|"));
  const [headings, ...cells] = lines.slice(first, end < 0 ? undefined : end)
    .map((line) => line.trim().replace(/^\||\|$/g, "").split("|").map(plain))
    .filter((row) => !row.every((cell) => /^[-:]+$/.test(cell)));
  const label = about.split(/ \(|[.;,] |: first/)[0].replace(/\.$/, "") || heading;
  return { name: heading.trim().toLowerCase().replaceAll(" ", "-"), label, about, headings: headings ?? [], cells };
}

function plain(cell) {
  return cell.trim().replaceAll("**", "").replace(/^\*|\*$/g, "").replaceAll("`", "");
}
