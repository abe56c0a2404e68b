// The same content served by the low-level server of the TypeScript SDK: typescript_server.cjs (stdio|http) (small|full)
// [PORT]. The content is that of content.py; every answer is compared with it.
const { serve } = require("@hono/node-server");
const { Server, createMcpHandler } = require("@modelcontextprotocol/server");
const { serveStdio } = require("@modelcontextprotocol/server/stdio");

const [transport, stock, port] = process.argv.slice(2);
const SIZE = 1 << 20;
const CHANGING = "bench://changing";

const contents = new Map();
const listed = [];
const number = { type: "integer" };
const inputSchema = { type: "object", properties: { a: number, b: number }, required: ["a", "b"] };
const tools = [
  { name: "add", inputSchema },
  { name: "add_later", inputSchema },
  { name: "touch", inputSchema: { type: "object" } },
];
let changed;

function add(uri, name, description, body) {
  const mimeType = typeof body === "string" ? "text/plain" : "application/octet-stream";
  listed.push({ uri, name, description, mimeType });
  contents.set(uri, { mimeType, body });
}

function largeText() {
  const line = 'A reading room opens at nine; "the shelves," says the sign, "are arranged by author". ';
  const page = Buffer.from(line.repeat(7) + "藏書樓\n");
  const whole = Buffer.alloc(SIZE, page); // repeats the page, and may end within a character
  return whole.toString().replace(/\uFFFD+$/, "");
}

function fill() {
  add("bench://small", "small", "A small text.", "A small text, the size of a note that somebody keeps at hand.");
  add(CHANGING, "changing", "A text that changes.", "The text whose changes are announced.");
  if (stock === "small") return;
  add("bench://text", "text", "A large text.", largeText());
  add("bench://blob", "blob", "Many bytes.", Buffer.from(Uint8Array.from({ length: SIZE }, (_, index) => index)));
  for (let count = 0; listed.length < 1000; count++) {
    const digits = String(count).padStart(4, "0");
    const description = `Record ${count} of the catalogue of the reading room.`;
    add(`bench://record/${digits}`, `record-${digits}`, description, `record-${digits}`);
  }
}

function read({ params: { uri } }) {
  const found = contents.get(uri);
  if (found) {
    const { mimeType, body } = found;
    const content = typeof body === "string" ? { text: body } : { blob: body.toString("base64") };
    return { contents: [{ uri, mimeType, ...content }] };
  }
  const [author, title] = uri.slice("book://".length).split("/");
  return { contents: [{ uri, mimeType: "text/plain", text: `${title}, written by ${author}.` }] };
}

async function call({ params: { name, arguments: { a, b } = {} } }) {
  if (name === "touch") {
    await changed(CHANGING);
    return { content: [{ type: "text", text: "touched" }] };
  }
  if (name === "add_later") await new Promise(setImmediate);
  return { content: [{ type: "text", text: String(a + b) }], structuredContent: { result: a + b } };
}

function build() {
  const capabilities = { resources: { subscribe: true }, tools: {} };
  const server = new Server({ name: "bench", version: "1.0" }, { capabilities });
  server.setRequestHandler("resources/list", () => ({ resources: listed }));
  server.setRequestHandler("resources/read", read);
  server.setRequestHandler("tools/list", () => ({ tools }));
  server.setRequestHandler("tools/call", call);
  changed ??= (uri) => server.sendResourceUpdated({ uri });
  return server;
}

fill();
if (transport === "http") {
  const handler = createMcpHandler(build);
  changed = (uri) => handler.notify.resourceUpdated(uri);
  serve({ fetch: (request) => handler.fetch(request), port: Number(port), hostname: "127.0.0.1" });
} else serveStdio(build);
