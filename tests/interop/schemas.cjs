// Prints the JSON schemas of the revisions that the conformance suite has in it, as one JSON object by revision.
// schemas.cjs PATH-OF-THE-SUITE
const { readFileSync } = require("node:fs");
const { runInNewContext } = require("node:vm");

const source = readFileSync(process.argv[2], "utf8");

// The suite keeps them in one table: {"2025-03-26": a, "2025-06-18": b, "2025-11-25": c, [LATEST]: d}.
const table = /\{"2025-03-26":([\w$]+),"2025-06-18":([\w$]+),"2025-11-25":([\w$]+),\[[\w$]+\]:([\w$]+)\}/.exec(source);
if (!table) throw new Error("the suite keeps its schemas elsewhere now");
const revisions = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

function literal(name) {
  const assignment = new RegExp(`[\\s,;]${name.replace("$", "\\$")}=\\{\\$schema:`).exec(source);
  if (!assignment) throw new Error(`there is no schema ${name}`);
  const start = source.indexOf("{", assignment.index);
  let depth = 0;
  for (let at = start; ; at++) {
    const character = source[at];
    if ("`'\"".includes(character)) {
      while (source[++at] !== character) if (source[at] === "\\") at++;
    } else if (character === "{") depth++;
    else if (character === "}" && --depth === 0) return source.slice(start, at + 1);
  }
}

const schemas = revisions.map((revision, at) => [revision, runInNewContext(`(${literal(table[at + 1])})`)]);
console.log(JSON.stringify(Object.fromEntries(schemas)));
