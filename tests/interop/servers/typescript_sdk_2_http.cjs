// A server of the official TypeScript SDK 2.x over HTTP, stateless; it prints its URL.
const { serve } = require("@hono/node-server");
const { McpServer, createMcpHandler } = require("@modelcontextprotocol/server");
const { z } = require("zod");

function build() {
  const server = new McpServer({ name: "official", version: "2" });
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, async ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  server.registerTool("count", { inputSchema: z.object({ n: z.number() }) }, async ({ n }, { mcpReq }) => {
    for (let progress = 1; progress <= n; progress++) {
      const params = { progressToken: mcpReq._meta.progressToken, progress, total: n };
      await mcpReq.notify({ method: "notifications/progress", params });
    }
    return { content: [{ type: "text", text: `counted to ${n}` }] };
  });
  server.registerResource("text", "memo://text", {}, async (uri) => ({ contents: [{ uri: uri.href, text: "text" }] }));
  return server;
}

const handler = createMcpHandler(build);
serve({ fetch: (request) => handler.fetch(request), port: 0, hostname: "127.0.0.1" }, ({ port }) =>
  console.log(`http://127.0.0.1:${port}/mcp`),
);
