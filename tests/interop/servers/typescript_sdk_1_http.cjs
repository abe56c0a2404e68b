// A server of the official TypeScript SDK 1.x over HTTP; it prints its URL. Arguments: stream, json or sse.
const { randomUUID } = require("node:crypto");
const http = require("node:http");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { SSEServerTransport } = require("@modelcontextprotocol/sdk/server/sse.js");
const { z } = require("zod");

const way = process.argv[2];

function build() {
  const server = new McpServer({ name: "official", version: "1" }, { capabilities: { logging: {} } });
  server.registerTool("echo", { inputSchema: { text: z.string() } }, async ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  server.registerTool("count", { inputSchema: { n: z.number() } }, async ({ n }, { sendNotification, _meta }) => {
    for (let progress = 1; progress <= n; progress++) {
      const params = { progressToken: _meta.progressToken, progress, total: n };
      await sendNotification({ method: "notifications/progress", params });
    }
    return { content: [{ type: "text", text: `counted to ${n}` }] };
  });
  server.registerTool("ask", {}, async () => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const answer = await server.server.elicitInput({ message: "What is your name?", requestedSchema });
    return { content: [{ type: "text", text: `Hello, ${answer.content.name}` }] };
  });
  server.registerTool("pause", {}, async (extra) => {
    extra.closeSSEStream();
    return { content: [{ type: "text", text: "after the pause" }] };
  });
  server.registerResource("text", "memo://text", {}, async (uri) => ({ contents: [{ uri: uri.href, text: "text" }] }));
  return server;
}

class Memory {
  events = [];
  async storeEvent(stream, message) {
    return String(this.events.push([stream, message]));
  }
  async getStreamIdForEventId(id) {
    return this.events[id - 1]?.[0];
  }
  async replayEventsAfter(id, { send }) {
    const stream = this.events[id - 1][0];
    for (let number = Number(id); number < this.events.length; number++)
      if (this.events[number][0] === stream && this.events[number][1].jsonrpc)
        await send(String(number + 1), this.events[number][1]);
    return stream;
  }
}

const sessions = {};

async function body(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return text ? JSON.parse(text) : undefined;
}

async function stream(request, response) {
  const message = await body(request);
  let transport = sessions[request.headers["mcp-session-id"]];
  if (!transport && message?.method === "initialize") {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: way === "json",
      ...(way === "stream" ? { eventStore: new Memory(), retryInterval: 20 } : {}),
      onsessioninitialized: (id) => (sessions[id] = transport),
      onsessionclosed: (id) => delete sessions[id],
    });
    await build().connect(transport);
  }
  if (transport) return transport.handleRequest(request, response, message);
  response.writeHead(request.headers["mcp-session-id"] ? 404 : 400).end("no session");
}

async function sse(request, response) {
  const url = new URL(request.url, "http://x");
  if (request.method === "GET" && url.pathname === "/sse") {
    const transport = new SSEServerTransport("/messages", response);
    sessions[transport.sessionId] = transport;
    return build().connect(transport);
  }
  const transport = sessions[url.searchParams.get("sessionId")];
  if (request.method !== "POST" || !transport) return response.writeHead(404).end("not here");
  return transport.handlePostMessage(request, response);
}

const server = http.createServer(way === "sse" ? sse : stream);
server.listen(0, "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${server.address().port}/${way === "sse" ? "sse" : "mcp"}`),
);
