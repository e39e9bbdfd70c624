"""Write the parts of documentation pages that scripts make, or check that they are up to date."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def rewrite(pages: Iterable[Path], updated: Callable[[str], str]) -> int:
    """Write each page as ``updated`` returns it and name those that change; with ``--check``, only name them.

    Returns:
        The exit code: 1 if ``--check`` finds a page that is out of date.
    """
    check, stale = "--check" in sys.argv, False
    for page in sorted(pages):
        text = page.read_text(encoding="utf-8")
        if (new := updated(text)) == text:
            continue
        stale = True
        print(f"{page.relative_to(DOCS)}: {'out of date' if check else 'updated'}")
        if not check:
            page.write_text(new, encoding="utf-8")
    return int(stale and check)
