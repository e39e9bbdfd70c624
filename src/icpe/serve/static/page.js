// The page: whose list, the dial of one or two models, and what has been served. Everything from the log is set as text.

import { drawFront, drawLorenz, drawTrend, interpolate, percent } from "./charts.js";

const $ = (id) => document.getElementById(id);
const SLIDER_STEPS = 10; // between two measured settings
const LIVE_EVERY = 3000; // milliseconds

let models = [];
let panels = [];

function element(name, className, text) {
  const found = document.createElement(name);
  if (className) found.className = className;
  if (text !== undefined) found.textContent = text;
  return found;
}

function clone(id) {
  return $(id).content.firstElementChild.cloneNode(true);
}

// ---- Requests -------------------------------------------------------------------------------------------------------

async function ask(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const key = sessionStorage.getItem("key");
  const headers = key ? { "X-API-Key": key } : {};
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  const response = await fetch(`${path}${query}`, { headers });
  const body = await response.json();
  if (response.ok) return body;
  if (response.status === 401) {
    sessionStorage.removeItem("key");
    $("key").hidden = false;
  }
  throw Object.assign(new Error(body.error.message), { code: body.error.code });
}

function complain(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message : "";
}

// Every action of a person begins without a complaint; what fails later stays visible until the next one.
async function attempt(work) {
  complain(null);
  try {
    await work();
  } catch (error) {
    complain(error);
  }
}

$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", $("key-text").value);
  $("key").hidden = true;
  attempt(begin);
});

// ---- Lists ----------------------------------------------------------------------------------------------------------

function itemRow(item, rank) {
  const row = element("li");
  row.dataset.id = item.id;
  if (rank) row.append(element("span", "rank", rank));
  const what = element("span", "what", item.name);
  if (item.name !== item.id) what.append(element("span", "id", item.id));
  row.append(what, element("span", item.head ? "head" : "niche", item.head ? "head" : "niche"));
  return row;
}

// Rows that stay move to their new places; the eye can follow them.
function replaceRows(list, rows) {
  const before = new Map([...list.children].map((row) => [row.dataset.id, row.getBoundingClientRect().top]));
  list.replaceChildren(...rows);
  if (!before.size || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const row of rows) {
    const old = before.get(row.dataset.id);
    const moves =
      old === undefined
        ? [{ opacity: 0 }, { opacity: 1 }]
        : [{ transform: `translateY(${old - row.getBoundingClientRect().top}px)` }, { transform: "none" }];
    row.animate(moves, { duration: 260, easing: "ease-out" });
  }
}

async function showHistory() {
  const user = $("user").value.trim();
  const found = await ask("page/user", { id: user, model: panels[0].model.name });
  const niche = found.count ? percent(found.niche / found.count) : "0 %";
  const more = found.count > found.items.length ? `; shown are the ${found.items.length} least popular` : "";
  $("history-text").textContent = `${found.count} items, ${niche} of them niche${more}.`;
  $("history").replaceChildren(...found.items.map((item) => itemRow(item)));
}

// ---- A panel: one model, its dial, its list ---------------------------------------------------------------------------

class Panel {
  constructor() {
    this.root = clone("panel");
    this.part = (className) => this.root.querySelector(`.${className}`);
    this.part("model").append(...models.map((model) => element("option", "", model.name)));
    this.part("model").addEventListener("change", (event) => attempt(() => this.choose(event.target.value)));
    const turn = (beta) => attempt(() => this.turn(beta));
    this.part("slider").addEventListener("input", () => turn(this.settingAt(Number(this.part("slider").value))));
    this.part("beta").addEventListener("change", () => {
      const text = this.part("beta").value;
      turn(text === "" ? this.model.beta : Number(text));
    });
    this.part("reset").addEventListener("click", () => turn(this.model.beta));
    new ResizeObserver(() => this.drawFront()).observe(this.part("front"));
    this.asked = 0;
  }

  async choose(name, beta = null) {
    this.model = models.find((model) => model.name === name) ?? models[0];
    this.part("model").value = this.model.name;
    this.part("version").textContent = `${this.model.method} on ${this.model.backbone} · ${this.model.version}`;
    const front = await ask("page/front", { model: this.model.name });
    this.points = front.points;
    // More niche items lie at the right, which is a smaller beta. Without a front, the dial turns around its setting.
    const around = Array.from({ length: 21 }, (_, place) => this.model.beta + 2 - place / 5);
    this.settings = this.points.length ? this.points.map((point) => point.beta).reverse() : around;
    this.part("slider").max = (this.settings.length - 1) * SLIDER_STEPS;
    this.part("front").toggleAttribute("hidden", !this.points.length);
    await this.turn(beta ?? this.model.beta);
  }

  settingAt(place) {
    const left = Math.min(Math.floor(place / SLIDER_STEPS), this.settings.length - 2);
    const [a, b] = [this.settings[left], this.settings[left + 1]];
    return Number((a + (place / SLIDER_STEPS - left) * (b - a)).toPrecision(3));
  }

  placeOf(beta) {
    const right = this.settings.findIndex((setting) => setting <= beta);
    if (right <= 0) return right ? Number(this.part("slider").max) : 0;
    const [a, b] = [this.settings[right - 1], this.settings[right]];
    return Math.round((right - 1 + (a - beta) / (a - b)) * SLIDER_STEPS);
  }

  turn(beta) {
    this.beta = beta;
    this.part("beta").value = beta;
    this.part("slider").value = this.placeOf(beta);
    this.part("slider").setAttribute("aria-valuetext", `beta ${beta}`);
    this.part("reset").disabled = beta === this.model.beta;
    this.drawPrice();
    remember();
    return this.list();
  }

  drawFront() {
    if (this.points?.length) drawFront(this.part("front"), this.points, this.beta, this.model.beta);
  }

  drawPrice() {
    if (!this.points.length) {
      this.part("price").textContent = "This model has no measured front, so the price of a setting is unknown.";
      return;
    }
    this.drawFront();
    const best = Math.max(...this.points.map((point) => point.ndcg));
    const [ndcg, share] = ["ndcg", "apt"].map((column) => interpolate(this.points, this.beta, column));
    const kept = best > 0 ? `${percent(ndcg / best)} of the best NDCG` : "an NDCG of 0";
    this.part("price").textContent = `Over all validation users, this setting keeps ${kept} and gives niche items ${percent(share)} of the places.`;
  }

  clear() {
    this.asked++;
    this.part("list").replaceChildren();
    this.part("percent").textContent = "–";
    this.part("meter").firstElementChild.style.width = "0";
  }

  async list() {
    const user = $("user").value.trim();
    if (!user) return;
    const number = ++this.asked;
    const parameters = { id: user, n: $("length").value, model: this.model.name };
    const found = await ask("page/list", { ...parameters, beta: this.beta });
    if (number !== this.asked) return; // the dial has moved on
    const usual = this.beta === this.model.beta ? found : await ask("page/list", { ...parameters, beta: this.model.beta });
    if (number !== this.asked) return;
    const known = new Set(usual.items.map((item) => item.id));
    const rows = found.items.map((item, place) => itemRow(item, place + 1));
    for (const row of rows) row.classList.toggle("new", !known.has(row.dataset.id));
    replaceRows(this.part("list"), rows);
    this.part("percent").textContent = percent(found.niche_share);
    this.part("meter").firstElementChild.style.width = `${100 * found.niche_share}%`;
    this.part("meter").setAttribute("aria-label", `${percent(found.niche_share)} niche`);
  }
}

function arrange() {
  $("views").classList.toggle("two", panels.length === 2);
  $("views").append(...panels.map((panel) => panel.root));
}

async function compare(wanted, name = null, beta = null) {
  if (wanted && panels.length === 1) {
    const other = models.find((model) => model.name !== panels[0].model.name) ?? models[0];
    panels.push(new Panel());
    arrange();
    await panels[1].choose(name ?? other.name, beta);
  } else if (!wanted && panels.length === 2) {
    panels.pop().root.remove();
    arrange();
  }
  remember();
}

// ---- Whose list -------------------------------------------------------------------------------------------------------

async function showUser(user) {
  $("user").value = user;
  closeSuggestions();
  remember();
  await attempt(async () => {
    try {
      await showHistory();
      await Promise.all(panels.map((panel) => panel.list()));
    } catch (error) {
      $("history-text").textContent = "";
      $("history").replaceChildren();
      for (const panel of panels) panel.clear();
      throw error;
    }
  });
}

function closeSuggestions() {
  $("suggestions").replaceChildren();
  $("suggestions").hidden = true;
  $("user").setAttribute("aria-expanded", "false");
  $("user").removeAttribute("aria-activedescendant");
}

let typing = 0;

async function suggest() {
  const number = ++typing;
  const found = await ask("page/users", { prefix: $("user").value.trim(), model: panels[0].model.name });
  if (number !== typing || document.activeElement !== $("user")) return;
  const options = found.users.map((user, place) => {
    const option = element("li", "", user);
    option.id = `suggestion-${place}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    option.addEventListener("mousedown", (event) => {
      event.preventDefault();
      showUser(user);
    });
    return option;
  });
  $("suggestions").replaceChildren(...options);
  $("suggestions").hidden = !options.length;
  $("user").setAttribute("aria-expanded", String(options.length > 0));
}

function moveSelection(step) {
  const options = [...$("suggestions").children];
  if (!options.length || $("suggestions").hidden) return;
  const old = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
  const place = (old + step + options.length + (old < 0 && step < 0 ? 1 : 0)) % options.length;
  options.forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
  $("user").setAttribute("aria-activedescendant", options[place].id);
  options[place].scrollIntoView({ block: "nearest" });
}

$("user").addEventListener("input", () => {
  closeSuggestions(); // they belong to what was there before
  attempt(suggest);
});
$("user").addEventListener("blur", closeSuggestions);
$("user").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if ($("suggestions").hidden) attempt(suggest);
    else moveSelection(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter") {
    typing++;
    showUser($("suggestions").querySelector("[aria-selected=true]")?.textContent ?? $("user").value.trim());
  } else if (event.key === "Escape") {
    closeSuggestions();
  }
});
$("another").addEventListener("click", () =>
  attempt(async () => showUser((await ask("page/another", { model: panels[0].model.name })).user)),
);
$("length").addEventListener("change", () => {
  remember();
  attempt(() => Promise.all(panels.map((panel) => panel.list())));
});
$("compare").addEventListener("change", (event) => attempt(() => compare(event.target.checked)));

// ---- The address keeps what is shown, so that it can be sent to somebody ------------------------------------------------

function remember() {
  if (panels.some((panel) => panel.beta === undefined)) return;
  const state = new URLSearchParams({ user: $("user").value, n: $("length").value });
  for (const panel of panels) state.append("view", `${panel.model.name} ${panel.beta}`);
  history.replaceState(null, "", `#${state}`);
}

function remembered() {
  const state = new URLSearchParams(location.hash.slice(1));
  const views = state.getAll("view").map((text) => {
    const [name, beta] = text.split(" ");
    const known = models.some((model) => model.name === name);
    return { name: known ? name : null, beta: known && Number.isFinite(Number(beta)) ? Number(beta) : null };
  });
  return { user: state.get("user"), n: state.get("n"), views };
}

// ---- What has been served ---------------------------------------------------------------------------------------------

const trends = new Map();

function showExposure(found) {
  const key = `${found.model} ${found.version}`;
  if (!trends.has(key)) trends.set(key, { root: clone("exposure"), values: [] });
  const { root, values } = trends.get(key);
  const part = (className) => root.querySelector(`.${className}`);
  if (found.lists) values.push(found.niche_share);
  if (values.length > 200) values.shift();
  part("name").textContent = found.model;
  part("served").textContent = `${found.lists.toLocaleString("en")} lists, ${found.places.toLocaleString("en")} places`;
  part("niche-share").textContent = found.lists ? percent(found.niche_share) : "–";
  part("coverage").textContent = found.lists ? percent(found.coverage) : "–";
  part("gini").textContent = found.lists ? found.gini.toFixed(2) : "–";
  drawTrend(part("trend"), values, found.log_niche_share);
  drawLorenz(part("lorenz"), found.curve);
  const rows = found.top.map((item, place) => {
    const row = itemRow(item, place + 1);
    row.append(element("span", "count", `${item.count.toLocaleString("en")} ×`));
    return row;
  });
  part("most").replaceChildren(...rows);
  return root;
}

function nothingServed() {
  const card = element("div", "card nothing");
  card.append(element("p", "", "Nothing has been served yet. Lists appear here as soon as a client asks for them:"));
  const body = JSON.stringify({ user_id: models[0].user_id_example, n: 10 });
  const address = new URL("v1/recommend", location.href.split("#")[0]);
  card.append(element("pre", "", `curl ${address} -H 'Content-Type: application/json' -d '${body}'`));
  return card;
}

async function showLive() {
  if (document.hidden) return;
  const found = (await ask("page/exposure")).models;
  const cards = found.some((one) => one.lists) ? found.map(showExposure) : [nothingServed()];
  if (cards.length !== $("live").children.length || cards.some((card, place) => card !== $("live").children[place])) {
    $("live").replaceChildren(...cards);
  }
}

// ---- Beginning --------------------------------------------------------------------------------------------------------

async function begin() {
  models = (await ask("v1/models")).models;
  const [first] = models;
  const several = models.length > 1 ? `${models.length} models; ` : "";
  $("about").textContent = `${several}${first.users.toLocaleString("en")} users, ${first.items.toLocaleString("en")} items. Turn the dial and watch who gets the places.`;
  const { user, n, views } = remembered();
  if ([...$("length").options].some((option) => option.value === n)) $("length").value = n;
  for (const panel of panels) panel.root.remove();
  panels = [new Panel()];
  arrange();
  $("user").value = user || (await ask("page/users")).users.at(-1);
  await panels[0].choose(views[0]?.name, views[0]?.beta);
  await showHistory();
  if (views.length > 1) {
    $("compare").checked = true;
    await compare(true, views[1].name, views[1].beta);
  }
  await showLive();
}

async function start() {
  try {
    complain(null);
    await begin();
  } catch (error) {
    complain(error);
    if (error.code === "loading") setTimeout(start, 1000);
  }
}

start();
setInterval(() => models.length && showLive().catch(complain), LIVE_EVERY);
