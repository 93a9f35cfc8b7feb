// A field that filters the routes while somebody types. Without it the page has all of them.

const list = document.getElementById("routes");
const routes = [...list.querySelectorAll("details")].map((route) => ({ route, text: route.textContent.toLowerCase() }));

const label = document.createElement("label");
label.htmlFor = "filter-routes";
label.textContent = "Filter";
const field = document.createElement("input");
field.id = "filter-routes";
field.type = "search";
field.placeholder = "volumes zip";
const found = document.createElement("span");
found.setAttribute("role", "status");
const row = document.createElement("div");
row.className = "row find";
row.append(label, field, found);
list.before(row);

field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const { route, text } of routes) route.hidden = !words.every((word) => text.includes(word));
  for (const section of list.querySelectorAll("section")) section.hidden = !section.querySelector("details:not([hidden])");
  const count = routes.filter(({ route }) => !route.hidden).length;
  found.textContent = words.length ? `${count} of ${routes.length} routes` : "";
});
