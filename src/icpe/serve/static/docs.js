// The description of all requests, from openapi.json, with a way to send them. It needs no network but the service.

const $ = (id) => document.getElementById(id);

function element(name, className, text) {
  const found = document.createElement(name);
  if (className) found.className = className;
  if (text !== undefined) found.textContent = text;
  return found;
}

let schemas = {};

const resolved = (schema) => (schema.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema);

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return [...new Set(schema.anyOf.map(kind))].filter((one) => one !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items ?? {})}`;
  return schema.type ?? "any";
}

function limits(schema) {
  const parts = [schema, ...(schema.anyOf ?? [])];
  const words = { minimum: "at least", maximum: "at most", minItems: "at least", maxItems: "at most" };
  const found = parts.flatMap((part) =>
    Object.entries(words)
      .filter(([key]) => key in part && Math.abs(part[key]) < 1e15)
      .map(([key, word]) => `${word} ${part[key].toLocaleString("en")}${key.endsWith("Items") ? " entries" : ""}`),
  );
  if (schema.default !== undefined && schema.default !== null) found.push(`default ${JSON.stringify(schema.default)}`);
  return found.join(", ");
}

function fieldRow(name, schema, required) {
  const row = element("tr");
  const title = element("th", "", name);
  title.scope = "row";
  if (required) title.append(element("span", "small", " (needed)"));
  const meaning = element("td", "", schema.description ?? "");
  row.append(title, element("td", "", kind(schema)), element("td", "small", limits(schema)), meaning);
  return row;
}

function table(rows) {
  const whole = element("table", "pairs");
  whole.append(...rows);
  const wide = element("div", "wide");
  wide.append(whole);
  return wide;
}

function fieldsOf(schema, sent) {
  const whole = resolved(schema.anyOf?.find((one) => one.$ref) ?? schema);
  const needed = new Set(whole.required ?? []);
  return Object.entries(whole.properties ?? {}).map(([name, field]) => fieldRow(name, field, sent && needed.has(name)));
}

function example(path, model) {
  const one = { user_id: model.user_id_example, n: 5 };
  const bodies = {
    "/v1/recommend": one,
    "/v1/recommend:batch": { requests: [one, { history: [model.item_id_example], n: 5 }] },
    "/v1/similar": { item_id: model.item_id_example, n: 5 },
    "/admin/reload": {},
  };
  return JSON.stringify(bodies[path] ?? {}, null, 2);
}

function trial(path, method, operation, model) {
  const form = element("form", "trial");
  const query = (operation.parameters ?? []).filter((one) => one.in === "query");
  const inputs = query.map((one) => {
    const label = element("label", "field", one.name);
    const input = element("input");
    input.name = one.name;
    label.append(input);
    form.append(label);
    return input;
  });
  const body = operation.requestBody ? element("textarea") : null;
  if (body) {
    body.value = example(path, model);
    body.rows = body.value.split("\n").length;
    body.setAttribute("aria-label", "Body of the request");
    form.append(body);
  }
  const answer = element("pre", "answer");
  answer.hidden = true;
  form.append(element("button", "", "Send"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = inputs.filter((input) => input.value).map((input) => [input.name, input.value]);
    const headers = $("key").value ? { "X-API-Key": $("key").value } : {};
    if (body) headers["Content-Type"] = "application/json";
    const address = `${path.slice(1)}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
    const response = await fetch(address, { method: method.toUpperCase(), headers, body: body?.value });
    const text = await response.text();
    answer.hidden = false;
    try {
      answer.textContent = `${response.status}\n${JSON.stringify(JSON.parse(text), null, 2)}`;
    } catch {
      answer.textContent = `${response.status}\n${text}`;
    }
  });
  return form;
}

function request(path, method, operation, model) {
  const whole = element("details");
  const summary = element("summary");
  summary.append(element("code", "", `${method.toUpperCase()} ${path}`), element("span", "small", ` ${operation.description ?? ""}`));
  whole.append(summary);
  const body = operation.requestBody?.content["application/json"].schema;
  const rows = (operation.parameters ?? []).map((one) => fieldRow(one.name, one.schema, one.required));
  if (body) rows.push(...fieldsOf(body, true));
  if (rows.length) whole.append(element("h3", "", "Send"), table(rows));
  const answer = operation.responses["200"]?.content?.["application/json"]?.schema;
  const answered = answer ? fieldsOf(answer, false) : [];
  if (answered.length) whole.append(element("h3", "", "Receive"), table(answered));
  whole.append(element("h3", "", "Try"), trial(path, method, operation, model));
  return whole;
}

const description = await (await fetch("openapi.json")).json();
schemas = description.components.schemas;
$("about").textContent = description.info.description.replaceAll("`", "");
const listed = await fetch("v1/models");
const model = listed.ok ? (await listed.json()).models[0] : { user_id_example: "u1", item_id_example: "i1" };
const groups = new Map();
for (const [path, operations] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(operations)) {
    const tag = operation.tags?.[0] ?? "other";
    groups.set(tag, [...(groups.get(tag) ?? []), request(path, method, operation, model)]);
  }
}
const titles = { lists: "Lists", service: "The service", page: "What the page asks; this may change between versions" };
for (const [tag, requests] of groups) $("requests").append(element("h2", "", titles[tag] ?? tag), ...requests);
