// The shelf, by the official TypeScript SDK 1.x. Argument: stdio or http; over HTTP it prints its URL.
const { randomUUID } = require("node:crypto");
const http = require("node:http");
const { McpServer, ResourceTemplate } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { completable } = require("@modelcontextprotocol/sdk/server/completable.js");
const { SubscribeRequestSchema, UnsubscribeRequestSchema } = require("@modelcontextprotocol/sdk/types.js");
const { z } = require("zod");

let count = 0;
let stop;
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
  server.setRequestHandler(SubscribeRequestSchema, () => ({}));
  server.setRequestHandler(UnsubscribeRequestSchema, () => ({}));

  shelf.registerTool("echo", { inputSchema: { text: z.string() } }, (arguments_) => text(arguments_.text));
  const sum = { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } };
  shelf.registerTool("add", sum, ({ a, b }) => text("added", { structuredContent: { sum: a + b } }));
  const slow = { inputSchema: { steps: z.number(), ends: z.boolean().default(true) } };
  shelf.registerTool("slow", slow, async ({ steps, ends }, { signal, sendNotification, _meta }) => {
    for (let progress = 1; progress <= steps; progress++) {
      const params = { progressToken: _meta?.progressToken, progress, total: steps, message: `step ${progress}` };
      await sendNotification({ method: "notifications/progress", params });
    }
    if (!ends) await new Promise((resolve) => signal.addEventListener("abort", resolve)).then(stop);
    return text("done");
  });
  shelf.registerTool("stopped", {}, async () => {
    await stopped;
    return text("stopped");
  });
  shelf.registerTool("touch", {}, async () => {
    count += 1;
    await server.sendResourceUpdated({ uri: "memo://count" });
    return text("touched");
  });
  shelf.registerTool("ask", {}, async ({ sendRequest, requestId }) => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const params = { message: "What is your name?", requestedSchema };
    const { action, content } = await server.elicitInput(params, { relatedRequestId: requestId });
    return text(`${action}: ${JSON.stringify(content)}`);
  });
  shelf.registerTool("model", {}, async ({ requestId }) => {
    const messages = [{ role: "user", content: { type: "text", text: "Say something." } }];
    const answer = await server.createMessage({ messages, maxTokens: 10 }, { relatedRequestId: requestId });
    return text(`${answer.model}: ${answer.content.text}`);
  });
  shelf.registerTool("folders", {}, async ({ requestId }) => {
    const { roots } = await server.listRoots({}, { relatedRequestId: requestId });
    return text(roots.map(({ uri }) => uri).join(", "));
  });
  shelf.registerTool("fail", {}, () => {
    throw new Error("The printer is on fire.");
  });
  shelf.registerTool("log", {}, async ({ sessionId, sendNotification }) => {
    for (const level of ["debug", "info", "error"])
      await server.sendLoggingMessage({ level, logger: "shelf", data: { said: level } }, sessionId);
    return text("logged");
  });
  const argsSchema = { name: completable(z.string(), starting(["Ada", "Alan"])) };
  shelf.registerPrompt("greet", { argsSchema }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  return shelf;
}

const sessions = new Map();

async function answer(request, response) {
  let transport = sessions.get(request.headers["mcp-session-id"]);
  if (!transport) {
    const onsessioninitialized = (id) => sessions.set(id, transport);
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
    await build().connect(transport);
  }
  await transport.handleRequest(request, response);
}

if (process.argv[2] === "http") {
  const listening = http.createServer(answer).listen(0, "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${listening.address().port}/mcp`);
  });
} else build().connect(new StdioServerTransport());
