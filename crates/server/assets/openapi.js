// The routes for people: shows /openapi.json, and asks no other server.

const h = (name, attributes, ...children) => {
  const element = document.createElement(name);
  Object.entries(attributes ?? {}).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...children.filter((child) => child !== undefined));
  return element;
};

const values = (schema) => schema.enum ? schema.enum.join(", ") : schema.type ?? "";

const parameters = (list) => list?.length ? h("table", {},
  h("tbody", {}, ...list.map((one) =>
    h("tr", {}, h("td", {}, h("code", {}, one.name)), h("td", {}, one.in), h("td", {}, values(one.schema)), h("td", {}, one.description))))) : undefined;

const types = (content) => Object.keys(content ?? {}).join(", ");

const operation = (path, method, one) => h("details", {},
  h("summary", {}, h("code", {}, `${method.toUpperCase()} ${path}`), ` ${one.summary}`),
  one.security ? h("p", {}, "It needs a token with the right to write.") : undefined,
  parameters(one.parameters),
  one.requestBody ? h("p", {}, `Body: ${types(one.requestBody.content)}`) : undefined,
  h("ul", {}, ...Object.entries(one.responses).map(([status, answer]) =>
    h("li", {}, `${status}: ${answer.description} ${types(answer.content)}`))));

const main = document.getElementById("routes");
try {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  const { info, paths } = await answer.json();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => ({ path, method, one })));
  const tags = [...new Set(operations.map(({ one }) => one.tags[0]))];
  main.append(h("p", {}, `${info.title} ${info.version}. ${info.description}`),
    ...tags.flatMap((tag) => [h("h2", {}, tag), ...operations.filter(({ one }) => one.tags[0] === tag)
      .map(({ path, method, one }) => operation(path, method, one))]));
} catch (error) {
  main.append(h("p", { class: "note" }, `The routes cannot be shown: ${error.message}`));
}
