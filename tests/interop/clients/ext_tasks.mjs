// The tasks package of the protocol's maintainers (npm @modelcontextprotocol/ext-tasks) against a server with the tools of
// test_tasks.py; prints what it saw as JSON.  ext_tasks.mjs MODE URL, MODE being "legacy" (2025-11-25) or "auto".
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = async (name, part = ".") => {
  const home = `${process.env.NODE_PATH}/${name}`;
  let entry = JSON.parse(readFileSync(`${home}/package.json`)).exports[part];
  while (typeof entry === "object") entry = entry.import ?? entry.node ?? entry.default;
  return import(pathToFileURL(`${home}/${entry}`).href);
};
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { createTaskSessionFromClient } = await load("@modelcontextprotocol/ext-tasks", "./client");
const wire = await load("@modelcontextprotocol/ext-tasks", "./core/v2");

const [mode, url] = process.argv.slice(2);
const capabilities = { elicitation: { form: {} }, sampling: {} };
const info = { name: "tour", version: "1" };
const seen = { statuses: {}, outcomes: {}, asked: [], errors: [] };
let raws = 0;

// The SDK does not know results that are tasks; the package has its host send such requests.
async function send(request, { signal } = {}) {
  const { method, params } = request;
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": method,
    "Mcp-Name": params.name ?? params.taskId,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: `raw-${++raws}`, method, params });
  const response = await fetch(url, { method: "POST", headers, body, signal });
  const text = await response.text();
  const data = text.startsWith("{") ? [text] : text.split("\n").filter((line) => line.startsWith("data: {")).map((line) => line.slice(6));
  const reply = JSON.parse(data.at(-1));
  return reply.error ? { kind: "error", error: reply.error } : { kind: "result", result: reply.result };
}

// Hears of one task until it has ended, and checks each notification by the package's own schema.
async function listen(taskId) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": info,
    "io.modelcontextprotocol/clientCapabilities": { ...capabilities, extensions: { [wire.TASKS_EXTENSION_ID_V2]: {} } },
  };
  const method = "subscriptions/listen";
  const params = { notifications: { taskIds: [taskId] }, _meta: meta };
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": method,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: "listen", method, params });
  const response = await fetch(url, { method: "POST", headers, body });
  const notes = [];
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const line = text.slice(0, end).split("\n").find((one) => one.startsWith("data: {"));
      const note = line && JSON.parse(line.slice(6));
      if (note?.method === "notifications/subscriptions/acknowledged") {
        await client.callTool({ name: "open", arguments: { gate: "listened" } });
      }
      if (note?.method !== "notifications/tasks") continue;
      notes.push(wire.isTaskStatusNotificationV2(note) ? note.params : { status: `not valid: ${line}` });
      if (!["working", "input_required"].includes(note.params.status)) return notes;
    }
  }
}

const client = new Client(info, { capabilities, versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
seen.revision = client.getNegotiatedProtocolVersion();
const modern = seen.revision === "2026-07-28";
const framing = { protocolVersion: seen.revision, clientInfo: info, clientCapabilities: capabilities };
const { tools } = await client.listTools();
const answers = {
  elicitation: { action: "accept", content: { value: "Ada" } },
  sampling: { role: "assistant", content: { type: "text", text: "Paris" }, model: "m" },
};
const session = createTaskSessionFromClient(client, {
  endpointId: "tests",
  onError: (error) => seen.errors.push(String(error)),
  onInputRequest: (request, context) => {
    seen.asked.push([request.kind, context.scope]);
    return answers[request.kind];
  },
  ...(modern ? { rawDispatch: send, v2RequestFraming: framing } : {}),
});

async function run(name, options = {}) {
  const tool = tools.find((one) => one.name === name);
  const declaration = { name, inputSchema: tool.inputSchema, ...tool.execution };
  const execution = await session.callTool(name, options.arguments ?? {}, { declaration, task: { preference: "require" } });
  if (execution.kind !== "task") throw new Error(`${name} was no task`);
  const statuses = (seen.statuses[name] = []);
  const heard = options.during?.(execution);
  const { outcome } = await execution.settle({ onEvent: ({ task }) => void (task && statuses.push(task.status)) });
  const text = outcome.result?.content[0].text;
  seen.outcomes[name] = [outcome.status, text ?? outcome.error?.message ?? null];
  return { outcome, heard: await heard };
}

const { outcome, heard } = await run("work", {
  arguments: { gate: modern ? "listened" : "" },
  during: (execution) => (modern ? listen(execution.handle.taskId) : undefined),
});
if (modern) {
  seen.heard = heard.map((task) => task.status);
  seen.results = [heard.at(-1).result, outcome.result];
}
await run("ask");
await run("broken");
await run("refuse");
await run("endless", { during: (execution) => execution.cancel() });
await session.close();
await client.close();
console.log(JSON.stringify(seen));
