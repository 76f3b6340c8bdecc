"""What MkDocs does not do by itself: pages from outside docs/, new pages, commands, new names.

- A link `../X` of a page leads to the file X of the repository; the site has it as X.
- A page of docs/ that the navigation does not name is added to the guides.
- A formula between `$$` becomes MathML, which browsers draw by themselves.
- The line `::: ens` becomes the help of every command.
- The line `::: further names` becomes the public names that no other page of the reference has.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
AT_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md")
RESULTS = ("results/desk/README.md", "results/desk/tables/*.md", "results/desk/figures/*")
FORMULA = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
OUTWARD = re.compile(r"\]\((?:\.\./)+((?!\.\.)[^)]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages that the navigation does not name."""
    nav: list[dict[str, Any]] = config.nav or []
    named = set(_leaves(nav))
    guides = next(entry["Guides"] for entry in nav if "Guides" in entry)
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name not in named:
            guides.append(page.name)
    return config


def _leaves(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [leaf for part in parts for leaf in _leaves(part)]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what the pages link to from outside docs/."""
    paths = [ROOT / name for name in AT_ROOT]
    paths += [path for pattern in RESULTS for path in sorted(ROOT.glob(pattern))]
    for path in paths:
        where = path.relative_to(ROOT).as_posix()
        files.append(File(where, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, *, page: Page, **details: Any) -> str:
    """Fill in what is made from the code, and lead links to where the site has their targets."""
    uri = page.file.src_uri
    markdown = FORMULA.sub(lambda found: f"<p>{convert(found[1], display='block')}</p>", markdown)
    if uri == "commands.md":
        markdown = markdown.replace("::: ens\n", _help())
    if uri == "api/further.md":
        markdown = markdown.replace("::: further names\n", _further())
    if uri in AT_ROOT:
        return markdown.replace("](docs/", "](")
    if uri.startswith("results/"):
        return markdown.replace("](../../docs/", "](../../")
    depth = uri.count("/")
    return OUTWARD.sub(lambda found: f"]({'../' * depth}{found[1]})", markdown)


def _help() -> str:
    from typer.main import get_command
    from typer.testing import CliRunner

    from neuralsolver.cli import app

    command: Any = get_command(app)
    parts = [("ens", [])]
    for name, one in command.commands.items():
        parts.append((f"ens {name}", [name]))
        parts += [(f"ens {name} {inner}", [name, inner]) for inner in getattr(one, "commands", ())]
    text = ""
    for title, words in parts:
        shown = CliRunner().invoke(app, [*words, "--help"], prog_name="ens")
        assert shown.exit_code == 0, shown.output
        text += f"## {title}\n\n```text\n{shown.output.strip()}\n```\n\n"
    return text


def _further() -> str:
    import neuralsolver

    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = {
        path.rsplit(".", 1)[1] for path in re.findall(r"^::: (\S+\.\S+)$", pages, re.MULTILINE)
    }
    left = sorted(set(neuralsolver.__all__) - shown)
    return "\n".join(f"::: neuralsolver.{name}\n" for name in left) or "None at present.\n"
