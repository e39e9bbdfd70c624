"""Check the built site: every internal link and anchor leads somewhere, and nothing is loaded from elsewhere.

``python tools/check_site.py site``
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
"""What a browser loads by itself; the site must work without a network."""


class Page(HTMLParser):
    """What one page links to and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the attributes that name or lead to something."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def problems_of(site: Path) -> list[str]:
    """One sentence per link that leads nowhere and per file that would come from a network."""
    pages = {file.resolve(): Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site} has no pages"]
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        found += [f"{name} loads {url} from elsewhere" for url in page.loaded if urlsplit(url).netloc]
        for url in (*page.links, *page.loaded):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name} links to {url}, which is no file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {url}, which has no such anchor")
    return found


if __name__ == "__main__":
    problems = problems_of(Path(sys.argv[1]))
    print("\n".join(problems) or "every internal link leads somewhere")
    sys.exit(1 if problems else 0)
