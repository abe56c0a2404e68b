// The shelf, by older official TypeScript SDKs. Arguments: the package, stdio or http; over HTTP it prints its URL.
// All of them have this way of writing a server, and no other.
const { randomUUID } = require("node:crypto");
const http = require("node:http");

const [, , sdk, way] = process.argv;

let count = 0;
let stop;
const stopped = new Promise((resolve) => (stop = resolve));
const text = (value, rest = {}) => ({ content: [{ type: "text", text: value }], ...rest });
const tool = (name, properties = {}) => ({ name, inputSchema: { type: "object", properties } });

async function build() {
  const { Server } = require(`${sdk}/server/index.js`);
  const types = require(`${sdk}/types.js`);
  const capabilities = { completions: {}, logging: {}, prompts: {}, resources: { subscribe: true }, tools: {} };
  const shelf = new Server({ name: "shelf", version: "1.0" }, { instructions: "Read quietly.", capabilities });
  const on = (request, answer) => shelf.setRequestHandler(types[`${request}RequestSchema`], answer);

  const mimeType = "text/plain";
  const resources = [
    { uri: "memo://text", name: "text", mimeType },
    { uri: "memo://blob", name: "blob", mimeType: "application/octet-stream" },
    { uri: "memo://count", name: "count", mimeType },
  ];
  on("ListResources", ({ params }) =>
    params?.cursor ? { resources: resources.slice(2) } : { resources: resources.slice(0, 2), nextCursor: "2" },
  );
  const uriTemplate = "book://{author}/{title}";
  on("ListResourceTemplates", () => ({ resourceTemplates: [{ uriTemplate, name: "book", mimeType }] }));
  on("ReadResource", ({ params: { uri } }) => {
    if (uri === "memo://blob") return { contents: [{ uri, mimeType: "application/octet-stream", blob: "AAH/" }] };
    const [, author, title] = uri.match("^book://([^/]*)/(.*)$") ?? [];
    const found = author ? `${title} by ${author}` : { "memo://text": "Plain text: 糖尿病", "memo://count": `${count}` }[uri];
    if (found === undefined) throw new types.McpError(-32002, "Resource not found", { uri });
    return { contents: [{ uri, mimeType, text: found }] };
  });
  on("Subscribe", () => ({}));
  on("Unsubscribe", () => ({}));
  let lowest = "debug";
  on("SetLevel", ({ params }) => ((lowest = params.level), {}));

  const names = ["stopped", "touch", "model", "folders", "fail", "log"];
  const tools = [
    tool("echo", { text: { type: "string" } }),
    tool("add"),
    tool("slow", { steps: { type: "number" }, ends: { type: "boolean" } }),
    ...names.map((name) => tool(name)),
  ];
  on("ListTools", () => ({ tools }));
  const calls = {
    echo: (arguments_) => text(arguments_.text),
    slow: async ({ steps, ends = true }, { signal, sendNotification }, token) => {
      const notify = sendNotification ?? ((each) => shelf.notification(each));
      for (let progress = 1; progress <= steps; progress++) {
        const params = { progressToken: token, progress, total: steps, message: `step ${progress}` };
        await notify({ method: "notifications/progress", params });
      }
      if (!ends) await new Promise((resolve) => signal.addEventListener("abort", resolve)).then(stop);
      return text("done");
    },
    stopped: () => stopped.then(() => text("stopped")),
    touch: async () => {
      count += 1;
      await shelf.sendResourceUpdated({ uri: "memo://count" });
      return text("touched");
    },
    model: async () => {
      const messages = [{ role: "user", content: { type: "text", text: "Say something." } }];
      const answer = await shelf.createMessage({ messages, maxTokens: 10 });
      return text(`${answer.model}: ${answer.content.text}`);
    },
    folders: async () => text((await shelf.listRoots()).roots.map(({ uri }) => uri).join(", ")),
    fail: () => text("The printer is on fire.", { isError: true }),
    log: async () => {
      for (const level of ["debug", "info", "error"])
        if (level !== "debug" || lowest === "debug")
          await shelf.sendLoggingMessage({ level, logger: "shelf", data: { said: level } });
      return text("logged");
    },
  };
  on("CallTool", ({ params }, extra) => {
    if (!calls[params.name]) throw new types.McpError(-32602, `Unknown tool: ${params.name}`);
    return calls[params.name](params.arguments, extra ?? {}, params._meta?.progressToken);
  });

  on("ListPrompts", () => ({ prompts: [{ name: "greet", arguments: [{ name: "name", required: true }] }] }));
  on("GetPrompt", ({ params }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${params.arguments.name}.` } }],
  }));
  on("Complete", ({ params: { argument } }) => {
    const known = { name: ["Ada", "Alan"], author: ["lem", "le guin"] }[argument.name];
    return { completion: { values: known.filter((each) => each.startsWith(argument.value)) } };
  });
  return shelf;
}

async function overHTTP() {
  const { StreamableHTTPServerTransport } = require(`${sdk}/server/streamableHttp.js`);
  const sessions = new Map();
  const listening = http.createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await (await build()).connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  listening.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listening.address().port}/mcp`));
}

async function overStdio() {
  const { StdioServerTransport } = require(`${sdk}/server/stdio.js`);
  await (await build()).connect(new StdioServerTransport());
}

(way === "http" ? overHTTP : overStdio)();
