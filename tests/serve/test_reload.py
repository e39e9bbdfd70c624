"""Models are replaced while requests are answered: none is lost, and none mixes two models."""

import asyncio
import shutil

import pytest

from icpe.serve.app import create_app
from icpe.serve.service import Service
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf
from icpe.serve.version import version_of

USERS = range(20)


@pytest.fixture
def live(folders, tmp_path):
    """A folder whose model will be replaced."""
    shutil.copytree(folders["main"], tmp_path / "live")
    return tmp_path / "live"


@pytest.fixture
def service(live, folders):
    settings = ServeSettings(folders={"live": live, "other": folders["other"]})
    return Service(settings, Shelf.load(settings))


def replace(live, folder):
    shutil.rmtree(live)
    shutil.copytree(folder, live)


def lists_of(model):
    return {user: model.recommend([user], 10)["item_id"].to_list() for user in USERS}


def test_requests_go_on_during_reloads(service, live, folders, models, connect):
    client = connect(create_app(service))
    expected = {version_of(folders[name]): lists_of(models[name]) for name in ("main", "other")}

    async def ask(http, begin, seen, done):
        user = begin
        while not done.is_set():
            await asyncio.sleep(0.001)  # without a socket, a request is answered before anything else gets its turn
            user = (user + 1) % len(USERS)
            if begin % 2:
                response = await http.post("/v1/recommend", json={"user_id": user, "n": 10, "model": "live"})
                assert response.status_code == 200
                answers = [response.json()]
            else:
                requests = [{"user_id": one, "n": 10, "model": "live"} for one in (user, user)]
                response = await http.post("/v1/recommend:batch", json={"requests": requests})
                answers = response.json()["answers"]
                assert answers[0] == answers[1]
            for answer in answers:
                assert [item["item_id"] for item in answer["items"]] == expected[answer["model_version"]][user]
                seen.append(answer["model_version"])

    async def work(http):
        done, seen, changes = asyncio.Event(), [], []
        clients = [asyncio.create_task(ask(http, begin, seen, done)) for begin in range(6)]
        for name in ("other", "main", "other"):
            replace(live, folders[name])
            response = await http.post("/admin/reload")
            assert response.status_code == 200
            changes.append(response.json())
            latest = (await http.post("/v1/recommend", json={"user_id": 0, "model": "live"})).json()
            assert latest["model_version"] == changes[-1]["versions"]["live"] == version_of(folders[name])
        done.set()
        await asyncio.gather(*clients)
        return seen, changes

    seen, changes = client.together(work)
    assert set(seen) == set(expected)
    assert len(seen) > 50
    assert [one["changed"] for one in changes] == [["live"]] * 3
    assert all(one["workers"] == 1 for one in changes)
    assert 'icpe_reloads_total{outcome="done"} 3.0' in client.get("/metrics").text


def test_only_changed_models_are_loaded(service, live, folders, connect):
    client = connect(create_app(service))
    before = service.shelf
    assert client.post("/admin/reload").json()["changed"] == []
    assert service.shelf.models == before.models
    replace(live, folders["other"])
    assert client.post("/admin/reload", json={"models": ["other"]}).json()["changed"] == []
    assert client.post("/admin/reload", json={"models": ["live"]}).json()["changed"] == ["live"]
    assert service.shelf.models["other"] is before.models["other"]
    refused = client.post("/admin/reload", json={"models": ["nothing"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_model")


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_damaged_model_changes_nothing(service, live, connect, damage):
    client = connect(create_app(service))
    before = client.post("/v1/recommend", json={"user_id": 3}).json()
    path = live / ("model.json" if damage == "missing" else "model.safetensors")
    content = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(content[:-100])
    refused = client.post("/admin/reload")
    assert refused.status_code == 409
    assert "keeps the models it has" in refused.json()["error"]["message"]
    assert client.post("/v1/recommend", json={"user_id": 3}).json() == before
    path.write_bytes(content)
    assert client.post("/admin/reload").json()["changed"] == []


def test_one_reload_at_a_time(service, live, folders, connect):
    client = connect(create_app(service))
    replace(live, folders["other"])

    async def twice(http):
        return await asyncio.gather(http.post("/admin/reload"), http.post("/admin/reload"))

    statuses = sorted(response.status_code for response in client.together(twice))
    assert statuses == [200, 409]


def test_counts_begin_again_with_a_new_version(service, live, folders, connect):
    client = connect(create_app(service))
    client.post("/v1/recommend", json={"user_id": 3})
    assert 'icpe_served_lists_total{model="live"} 1.0' in client.get("/metrics").text
    replace(live, folders["other"])
    client.post("/admin/reload")
    assert 'icpe_served_lists_total{model="live"} 0.0' in client.get("/metrics").text


def test_not_ready_while_loading(live, connect):
    app = create_app(Service(ServeSettings(folders={"live": live})))
    client = connect(app)

    async def start(http):
        async with app.router.lifespan_context(app):
            states = [(await http.get("/health/ready"))]
            early = await http.post("/v1/recommend", json={"user_id": 3})
            alive = await http.get("/health/live")
            while states[-1].status_code != 200 and len(states) < 1000:
                await asyncio.sleep(0.02)
                states.append(await http.get("/health/ready"))
            return states, early, alive, await http.post("/v1/recommend", json={"user_id": 3})

    states, early, alive, late = client.together(start)
    assert (states[0].status_code, states[0].json()) == (503, {"status": "loading"})
    assert (early.status_code, early.json()["error"]["code"]) == (503, "loading")
    assert states[-1].status_code == alive.status_code == late.status_code == 200
