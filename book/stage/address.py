"""How a reader gets the package, and of what this site was built.

Where site and code are on the web, MkDocs' own ``site_url`` and ``repo_url`` say, and ``edit_uri``
how a page is corrected there. While they are empty, a page says what works without them.
"""

import re
import subprocess
import tomllib
from functools import cache
from typing import Any

from book.edition import Edition
from book.page import ROOT, Page

AFTER = ("citations",)
CLONE, WHEEL = "<!-- clone -->", "<!-- wheel -->"
TORCH = re.compile(r"^torch==([\d.]+)", re.MULTILINE)
WORDS = {
    "pt": {
        "clone": "Peça o clone a quem lhe deu este site; o pacote acima não precisa dele.",
        "wheel": "Baixe {link}, que foi construído com este site, e instale-o:",
        "command": "com o comando attnref",
        "foot": "{version} · {licence} · verificado com PyTorch {torch}",
    },
    "en": {
        "clone": "Ask whoever gave you this site for the clone; the package above needs none.",
        "wheel": "Download {link}, which was built together with this site, and install it:",
        "command": "with the command attnref",
        "foot": "{version} · {licence} · tested with PyTorch {torch}",
    },
}


def wheel(told: dict[str, Any]) -> str:
    """The name of the file that the package is built into."""
    return f"{told['name']}-{told['version']}-py3-none-any.whl"


def built_of(language: str) -> str:
    """What stands at the foot of each page."""
    told, commit = project(), short_commit()
    pinned = TORCH.search((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert pinned
    return WORDS[language]["foot"].format(
        version=f"{told['name']} {told['version']}" + (f" ({commit})" if commit else ""),
        licence=told["license"],
        torch=pinned[1],
    )


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if CLONE not in markdown and WHEEL not in markdown:
        return markdown
    words, name = WORDS[edition.language], wheel(project())
    clone = words["clone"]
    if edition.repo_url:
        folder = edition.repo_url.rstrip("/").rpartition("/")[2]
        clone = "\n\n" + _bash(f"git clone {edition.repo_url}", f"cd {folder}")
    place = f"{'../' * (page.url.count('/') + 1)}dist/{name}"  # beside the folder of the language
    said = words["wheel"].format(link=f'<a href="{place}"><code>{name}</code></a>')
    install = _bash(f"pip install {name}", f"pip install './{name}[cli]'  # {words['command']}")
    return markdown.replace(CLONE, clone).replace(WHEEL, f"{said}\n\n{install}")


def _bash(*lines: str) -> str:
    return "\n".join(("```bash", *lines, "```"))


@cache
def project() -> dict[str, Any]:
    """What pyproject.toml says of the project."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(told, dict)
    return told


@cache
def short_commit() -> str:
    """The commit of which the site is built; nothing outside of a clone."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return "" if answer.returncode else answer.stdout.strip()
