"""Every page is one self-contained file, and Chromium renders it: light and dark, wide and narrow, and in print."""

import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIGURES = {"page": 12, "comparison": 12, "audited": 4}
WIDTHS = (1400, 420)
HOSTILE_ESCAPED = "&lt;script&gt;alert(&#39;$1&#39;)&lt;/script&gt; &amp; &#34;quoted&#34; "

MEASURE = """<!doctype html><title>measuring</title><pre id="found"></pre>FRAMES
<script>
onload = () => {
  const pages = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument;
    const sizes = [...page.querySelectorAll("svg")].map((one) => one.getBoundingClientRect());
    const uses = [...page.querySelectorAll("svg use")].map((one) => one.getBBox());
    const text = page.querySelector("svg text");
    return {
      name: frame.dataset.name,
      sizes: sizes.map((one) => [one.width, one.height]),
      drawn: uses.filter((one) => one.width > 0 || one.height > 0).length,
      uses: uses.length,
      font: parseFloat(getComputedStyle(text).fontSize) * sizes[0].width / page.querySelector("svg").viewBox.baseVal.width,
      overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      ink: getComputedStyle(page.body).color,
      label: getComputedStyle(text).fill,
    };
  });
  document.getElementById("found").textContent = JSON.stringify(pages);
};
</script>
"""


@pytest.fixture(scope="module")
def pages(page, comparison, audited):
    return {"page": page, "comparison": comparison, "audited": audited}


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_is_one_file_that_loads_nothing(pages, name):
    text = pages[name].read_text()
    assert not re.findall(r"<(?:script|img|iframe|object|embed)\b|@import|javascript:", text, re.IGNORECASE)
    assert not re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", text)
    assert text.count("<svg ") == FIGURES[name]
    assert len(text) < 1_000_000
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)}
    assert used
    assert used <= set(ids)


@pytest.mark.parametrize("name", FIGURES)
def test_names_from_the_data_are_escaped(pages, name):
    text = pages[name].read_text()
    assert HOSTILE_ESCAPED in text
    assert "alert('" not in text
    assert "<i>" not in text
    assert "<b>/" not in text


def chromium(tmp_path, *flags, timeout=90):
    common = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    return subprocess.run([CHROMIUM, *common, *flags], capture_output=True, text=True, timeout=timeout, check=True)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_renders_the_pages(pages, tmp_path, dark):
    frames = []
    for name, path in pages.items():
        shutil.copy(path, tmp_path / f"{name}.html")
        frames += [
            f'<iframe data-name="{name}" src="{name}.html" style="width: {width}px; height: 900px"></iframe>'
            for width in WIDTHS
        ]
    (tmp_path / "measure.html").write_text(MEASURE.replace("FRAMES", "".join(frames)))
    flags = ["--allow-file-access-from-files", "--dump-dom", "--enable-logging=stderr"]
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    done = chromium(tmp_path, *flags, scheme, (tmp_path / "measure.html").as_uri())
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert found
    measured = json.loads(found[1])
    assert len(measured) == len(pages) * len(WIDTHS)
    for frame in measured:
        assert len(frame["sizes"]) == FIGURES[frame["name"]]
        assert all(width > 250 and height > 150 for width, height in frame["sizes"])
        assert frame["uses"] == frame["drawn"] > 10
        assert frame["font"] > 9
        assert frame["overflow"] == 0
        light = sum(map(int, re.findall(r"\d+", frame["ink"])[:3])) > 3 * 128
        assert light == dark
        assert frame["label"] == frame["ink"]


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_page_prints(comparison, tmp_path):
    chromium(tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}", comparison.as_uri())
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
