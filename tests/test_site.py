"""The check of the built site finds what is wrong."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("check_site", ROOT / "tools" / "check_site.py")
check_site = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_site)


def test_links_that_lead_nowhere_and_files_from_elsewhere_are_found(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="part/page.html#here">good</a><a href="https://example.org/">good</a><a href="#top" id="top">good</a>'
        '<a href="part/page.html#there">bad</a><a href="gone.html">bad</a><script src="https://cdn.example/x.js"></script>',
        encoding="utf-8",
    )
    (tmp_path / "part" / "page.html").write_text('<p id="here"></p><a href="../index.html">good</a>', encoding="utf-8")
    assert sorted(check_site.problems_of(tmp_path)) == [
        "index.html links to gone.html, which is no file",
        "index.html links to part/page.html#there, which has no such anchor",
        "index.html loads https://cdn.example/x.js from elsewhere",
    ]


def test_an_empty_folder_is_a_problem(tmp_path):
    assert check_site.problems_of(tmp_path)
