// The shelf, by the official TypeScript SDK 2.x. Argument: stdio or http; over HTTP it prints its URL.
const { serve } = require("@hono/node-server");
const {
  McpServer,
  ResourceTemplate,
  acceptedContent,
  completable,
  createMcpHandler,
  inputRequired,
} = require("@modelcontextprotocol/server");
const { serveStdio } = require("@modelcontextprotocol/server/stdio");
const { z } = require("zod");

let count = 0;
let stop;
let updated;
const stopped = new Promise((resolve) => (stop = resolve));
const text = (value, rest = {}) => ({ content: [{ type: "text", text: value }], ...rest });
const plain = (uri, value) => ({ contents: [{ uri, mimeType: "text/plain", text: value }] });
const starting = (values) => (value) => values.filter((each) => each.startsWith(value));

function build() {
  const shelf = new McpServer(
    { name: "shelf", version: "1.0" },
    { instructions: "Read quietly.", capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  const { server } = shelf;
  const mimeType = "text/plain";
  shelf.registerResource("text", "memo://text", { mimeType }, ({ href }) => plain(href, "Plain text: 糖尿病"));
  shelf.registerResource("blob", "memo://blob", { mimeType: "application/octet-stream" }, ({ href }) => ({
    contents: [{ uri: href, mimeType: "application/octet-stream", blob: "AAH/" }],
  }));
  shelf.registerResource("count", "memo://count", { mimeType }, ({ href }) => plain(href, String(count)));
  const complete = {
    author: starting(["lem", "le guin"]),
    title: (value, context) => (context?.arguments?.author === "lem" ? starting(["solaris"])(value) : []),
  };
  const template = new ResourceTemplate("book://{author}/{title}", { list: undefined, complete });
  shelf.registerResource("book", template, { mimeType }, ({ href }, { author, title }) =>
    plain(href, `${title} by ${author}`),
  );
  server.setRequestHandler("resources/subscribe", () => ({})); // of older revisions
  server.setRequestHandler("resources/unsubscribe", () => ({}));

  const none = { inputSchema: z.object({}) };
  shelf.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, (each) => text(each.text));
  const numbers = z.object({ a: z.number(), b: z.number() });
  const sum = { inputSchema: numbers, outputSchema: z.object({ sum: z.number() }) };
  shelf.registerTool("add", sum, ({ a, b }) => text("added", { structuredContent: { sum: a + b } }));
  const slow = { inputSchema: z.object({ steps: z.number(), ends: z.boolean().default(true) }) };
  shelf.registerTool("slow", slow, async ({ steps, ends }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= steps; progress++) {
      const params = { progressToken, progress, total: steps, message: `step ${progress}` };
      await mcpReq.notify({ method: "notifications/progress", params });
    }
    if (!ends) await new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve)).then(stop);
    return text("done");
  });
  shelf.registerTool("stopped", none, async () => {
    await stopped;
    return text("stopped");
  });
  shelf.registerTool("touch", none, async () => {
    count += 1;
    await (updated ?? ((uri) => server.sendResourceUpdated({ uri })))("memo://count");
    return text("touched");
  });
  const question = (key, request) => inputRequired({ inputRequests: { [key]: request }, requestState: "asked" });
  shelf.registerTool("ask", none, (_, { mcpReq }) => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const answer = mcpReq.inputResponses?.name;
    if (!answer) return question("name", inputRequired.elicit({ message: "What is your name?", requestedSchema }));
    const content = acceptedContent(mcpReq.inputResponses, "name");
    return text(`${answer.action}: ${JSON.stringify(content)}`);
  });
  shelf.registerTool("model", none, (_, { mcpReq }) => {
    const messages = [{ role: "user", content: { type: "text", text: "Say something." } }];
    const answer = mcpReq.inputResponses?.said;
    if (!answer) return question("said", inputRequired.createMessage({ messages, maxTokens: 10 }));
    return text(`${answer.model}: ${answer.content.text}`);
  });
  shelf.registerTool("folders", none, (_, { mcpReq }) => {
    const answer = mcpReq.inputResponses?.roots;
    if (!answer) return question("roots", inputRequired.listRoots());
    return text(answer.roots.map(({ uri }) => uri).join(", "));
  });
  shelf.registerTool("fail", none, () => {
    throw new Error("The printer is on fire.");
  });
  shelf.registerTool("log", none, async (_, { mcpReq }) => {
    for (const level of ["debug", "info", "error"]) await mcpReq.log(level, { said: level }, "shelf");
    return text("logged");
  });
  const argsSchema = z.object({ name: completable(z.string(), starting(["Ada", "Alan"])) });
  shelf.registerPrompt("greet", { argsSchema }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  return shelf;
}

if (process.argv[2] === "http") {
  const handler = createMcpHandler(build);
  updated = (uri) => handler.notify.resourceUpdated(uri);
  serve({ fetch: (request) => handler.fetch(request), port: 0, hostname: "127.0.0.1" }, ({ port }) =>
    console.log(`http://127.0.0.1:${port}/mcp`),
  );
} else serveStdio(build);
