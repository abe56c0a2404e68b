// Check the budgets of the built page: 200 KB compressed for the first load, 80 KB for each lazy file.
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const FIRST_LOAD = 200_000;
const LAZY = 80_000;

const root = new URL("../src/carrel/studio/static/", import.meta.url);
const html = readFileSync(new URL("index.html", root));
const size = (path) => gzipSync(readFileSync(new URL(path, root)), { level: 9 }).length;
const first = [...html.toString().matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1]);
const lazy = readdirSync(new URL("assets/", root))
  .map((name) => `assets/${name}`)
  .filter((path) => !first.includes(path));

const total = gzipSync(html).length + first.reduce((sum, path) => sum + size(path), 0);
console.log(`first load ${total} bytes of ${FIRST_LOAD}: index.html ${first.join(" ")}`);
const failures = total > FIRST_LOAD ? ["first load"] : [];
for (const path of lazy) {
  console.log(`lazy ${size(path)} bytes of ${LAZY}: ${path}`);
  if (size(path) > LAZY) failures.push(path);
}
if (failures.length) {
  console.error(`too large: ${failures.join(", ")}`);
  process.exit(1);
}
