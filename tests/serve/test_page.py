"""The page in Chromium: the dial is turned and the list changes, by keyboard, in narrow windows, light and dark."""

import re
import shutil
import threading

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from icpe.serve.app import create_app
from icpe.serve.server import listen
from icpe.serve.service import Service
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
in_a_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="Chromium or chromedriver is not installed"
)


@pytest.fixture(scope="module")
def run():
    """Run an application in a thread; returns its address."""
    running = []

    def begin(app):
        sock = listen("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        running.append((server, thread, sock))
        return f"http://127.0.0.1:{sock.getsockname()[1]}/"

    yield begin
    for server, thread, sock in running:
        server.should_exit = True
        thread.join()
        sock.close()


@pytest.fixture(scope="module")
def shelf(folders):
    settings = ServeSettings(folders={name: folders[name] for name in ("texts", "main")})
    return settings, Shelf.load(settings)


@pytest.fixture(scope="module")
def address(run, shelf):
    return run(create_app(Service(*shelf)))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1300,1000",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    """What the tests look at."""

    def __init__(self, driver, address):
        self.driver = driver
        driver.get("about:blank")
        driver.get(address)

    def wait(self, condition):
        return WebDriverWait(self.driver, 20, 0.05).until(lambda _: condition())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.wait(lambda: next(iter(self.all(selector)), None))

    def ids(self, panel=0):
        script = (
            "return [...document.querySelectorAll('.list')[arguments[0]]?.children ?? []].map((row) => row.dataset.id)"
        )
        return self.driver.execute_script(script, panel)

    def percent(self):
        return int(self.one(".percent").text.removesuffix(" %") or -1)


@pytest.fixture
def page(browser, address):
    found = Page(browser, address)
    found.wait(lambda: len(found.ids()) == 10)
    yield found
    assert browser.get_log("browser") == []


@in_a_browser
def test_turning_the_dial_changes_the_list(page, models):
    model, user = models["texts"], page.one("#user").get_attribute("value")
    assert page.ids() == model.recommend([user], 10)["item_id"].to_list()
    before, share = page.ids(), page.percent()
    page.one(".slider").send_keys(Keys.END)
    page.wait(lambda: page.ids() != before)
    page.wait(lambda: page.percent() > share)
    most_niche = float(model.front()["beta"].min())
    assert float(page.one(".beta").get_attribute("value")) == most_niche
    assert page.ids() == model.dial(beta=most_niche).recommend([user], 10)["item_id"].to_list()
    assert page.all(".list li.new")
    assert "of the best NDCG" in page.one(".price").text
    page.one(".reset").click()
    page.wait(lambda: page.ids() == before)


@in_a_browser
def test_names_are_text(page):
    assert "<script>alert('$1')</script>" in page.one(".list li .what").text
    assert "<script>alert('$1')</script>" in page.one("#history li .what").text
    assert len(page.all("script")) == 1


@in_a_browser
def test_users_are_found_by_keyboard(page, models):
    field = page.one("#user")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("u1")
    known = models["texts"].log.users
    expected = [user for user in known if user.startswith("u1")][:8]
    page.wait(lambda: [option.text for option in page.all("#suggestions li")] == expected)
    field.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    page.wait(lambda: field.get_attribute("value") == expected[1])
    page.wait(lambda: page.ids() == models["texts"].recommend([expected[1]], 10)["item_id"].to_list())
    assert not page.one("#suggestions").is_displayed()
    field.send_keys("nobody", Keys.ENTER)
    page.wait(lambda: "is not in the training data" in page.one("#problem").text)
    assert [entry["message"][-25:] for entry in page.driver.get_log("browser")]  # Chromium notes every 404


@in_a_browser
def test_two_models_side_by_side_and_an_address_to_send(page, models):
    page.one("#compare").click()
    page.wait(lambda: len(page.all(".panel")) == 2)
    page.wait(lambda: "ids are integers" in page.one("#problem").text)
    page.driver.get_log("browser")  # the second model has other users, which the page says
    page.driver.execute_script(
        "const s = document.querySelectorAll('.model')[1]; s.value = 'texts'; s.dispatchEvent(new Event('change'))"
    )
    page.wait(lambda: len(page.ids(1)) == 10)
    second = page.all(".slider")[1]
    second.send_keys(Keys.END)
    page.wait(lambda: page.ids(1) != page.ids(0))
    shown, url = (page.ids(0), page.ids(1)), page.driver.current_url
    again = Page(page.driver, url)
    again.wait(lambda: (again.ids(0), again.ids(1)) == shown)


@in_a_browser
@pytest.mark.parametrize("width", [1300, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_wide_light_and_dark(page, width, scheme):
    emulate = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", emulate)
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        page.wait(lambda: page.driver.execute_script("return innerWidth") == width)
        assert page.driver.execute_script(overflow) == 0
        ink = page.driver.execute_script("return getComputedStyle(document.body).color")
        assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > 3 * 128) == (scheme == "dark")
        sizes = [one.size for one in page.all(".slider, .front")]
        assert all(size["width"] > 200 for size in sizes)
        panel, chart = page.one(".panel").size["width"], page.one(".front").size["width"]
        assert chart > 0.85 * panel
        drawn = "return document.querySelector('.front').viewBox.baseVal.width"
        page.wait(lambda: abs(page.driver.execute_script(drawn) - chart) <= 1)  # texts keep their size
        assert [text.text for text in page.all(".front text")] == [
            *("accuracy (NDCG)", "0 %", "50 %", "100 %", "niche share")
        ]
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@in_a_browser
def test_live_exposure(run, shelf, browser):
    service = Service(*shelf)
    page = Page(browser, run(create_app(service)))
    page.wait(lambda: "Nothing has been served yet" in page.one("#live").text)
    served = service.shelf.named("texts")
    code = served.user_code(served.model.log.users[0])
    service.exposure.add(served, served.history(code)[:4])
    page.wait(lambda: page.all(".exposure"))
    assert "1 lists, 4 places" in page.one(".exposure").text
    share = (~served.head[served.history(code)[:4]]).mean()
    assert page.one(".niche-share").text == f"{100 * share:.0f} %"
    assert len(page.all(".exposure .trend path")) == 1


@in_a_browser
def test_the_page_asks_for_the_key(run, shelf, browser):
    page = Page(browser, run(create_app(Service(*shelf), "open sesame")))
    page.wait(lambda: page.one("#key").is_displayed())
    page.one("#key-text").send_keys("open sesame", Keys.ENTER)
    page.wait(lambda: len(page.ids()) == 10)
    assert not page.one("#key").is_displayed()
    browser.get_log("browser")  # Chromium notes the 401


@in_a_browser
def test_the_description_works_without_a_network(browser, address):
    page = Page(browser, f"{address}docs")
    page.wait(lambda: len(page.all("details")) == 14)
    first = page.all("details")[0]
    first.find_element(By.TAG_NAME, "summary").click()
    first.find_element(By.TAG_NAME, "button").click()
    page.wait(lambda: '"model_version"' in first.find_element(By.CSS_SELECTOR, ".answer").text)
    assert browser.get_log("browser") == []


def test_files_load_nothing_from_elsewhere(serve):
    client = serve()
    for path in (
        "/",
        "/docs",
        "/static/page.js",
        "/static/charts.js",
        "/static/docs.js",
        "/static/page.css",
        "/static/style.css",
    ):
        response = client.get(path)
        assert response.status_code == 200
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", response.text)
        assert "innerHTML" not in response.text
