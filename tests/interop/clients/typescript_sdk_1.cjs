// The official TypeScript SDK 1.x on a tour of a golden application; prints what it saw as JSON.
// typescript_sdk_1.cjs PACKAGE (URL | COMMAND ARGUMENT…), PACKAGE being the name under which one of its versions is installed;
// a URL that ends with /sse is one of HTTP+SSE. Of the application that asks it sees what comes of its answers.
const [sdk, ...target] = process.argv.slice(2);
const { Client } = require(`${sdk}/client/index.js`);
const types = require(`${sdk}/types.js`);

const codeOf = (request) => request.then(() => null, (error) => error.code ?? String(error));

async function pages(list, key) {
  const found = [];
  for (let cursor; ; ) {
    const page = await list(cursor === undefined ? {} : { cursor });
    found.push(page[key]);
    cursor = page.nextCursor;
    if (cursor === undefined) return found;
  }
}

function connection() {
  if (target[0].endsWith("/sse")) {
    globalThis.EventSource ??= require("eventsource").EventSource; // the first versions find it there
    const { SSEClientTransport } = require(`${sdk}/client/sse.js`);
    return new SSEClientTransport(new URL(target[0]));
  }
  if (target.length === 1) {
    const { StreamableHTTPClientTransport } = require(`${sdk}/client/streamableHttp.js`);
    return new StreamableHTTPClientTransport(new URL(target[0]));
  }
  const { StdioClientTransport } = require(`${sdk}/client/stdio.js`);
  return new StdioClientTransport({ command: target[0], args: target.slice(1) });
}

async function answered(client, tools) {
  const seen = {};
  for (const name of tools) seen[name] = (await client.callTool({ name })).content[0].text;
  return seen;
}

function answer(client) {
  if (types.ElicitRequestSchema)
    client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
      const known = { name: "Ada", value: true, letters: ["a"] };
      if (params.mode === "url") return { action: "accept" };
      const fields = Object.keys(params.requestedSchema.properties).filter((name) => name in known);
      return { action: "accept", content: Object.fromEntries(fields.map((name) => [name, known[name]])) };
    });
  client.setRequestHandler(types.CreateMessageRequestSchema, () => ({
    ...{ role: "assistant", content: { type: "text", text: "Paris" }, model: "m", stopReason: "endTurn" },
  }));
  client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///home/ada", name: "Home" }] }));
}

async function main() {
  const capabilities = { roots: {}, sampling: {} };
  if (types.ElicitRequestSchema) capabilities.elicitation = { form: {}, url: {} };
  const client = new Client({ name: "tour", version: "1" }, { capabilities });
  answer(client);
  const logs = [];
  let updated;
  const update = new Promise((resolve) => (updated = resolve));
  client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => updated(params.uri));
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
    logs.push([params.level, params.data]);
  });
  // The handshake, seen on its way in: the older versions do not tell what was agreed on.
  const transport = connection();
  const start = transport.start.bind(transport);
  let revision;
  transport.start = async () => {
    const heard = transport.onmessage;
    transport.onmessage = (message, ...more) => {
      revision ??= message.result?.protocolVersion;
      return heard(message, ...more);
    };
    return start();
  };
  await client.connect(transport);

  const seen = { revision, server: client.getServerVersion().name };
  if (seen.server === "asking") {
    const tools = ["ponder", "look"];
    if (types.ElicitRequestSchema) tools.push("greet", "book", "survey");
    if (types.ElicitationCompleteNotificationSchema) tools.push("choose", "pay");
    console.log(JSON.stringify({ revision, answered: await answered(client, tools) }));
    return client.close();
  }
  if (client.getInstructions) seen.instructions = client.getInstructions();

  const listed = await pages((params) => client.listResources(params), "resources");
  seen.pages = listed.map((page) => page.map((resource) => resource.uri));
  seen.rich = listed.flat().find((resource) => resource.name === "rich").title ?? null;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  seen.read = [];
  for (const uri of ["memo://plain", "memo://both", "book://le%20guin/the%20dispossessed"]) {
    for (const content of (await client.readResource({ uri })).contents) seen.read.push(content.text ?? content.blob);
  }

  await client.subscribeResource({ uri: "memo://watched" });
  await client.callTool({ name: "touch", arguments: { uri: "memo://watched" } });
  seen.updated = await update;
  await client.unsubscribeResource({ uri: "memo://watched" });

  seen.tools = (await pages((params) => client.listTools(params), "tools")).flat().map((tool) => tool.name);
  seen.blocks = (await client.callTool({ name: "blocks" })).content.map((block) => block.type);
  seen.structured = (await client.callTool({ name: "weather", arguments: { city: "Oslo" } })).structuredContent ?? null;
  seen["in a header"] = (await client.callTool({ name: "regional", arguments: { region: "日本" } })).content[0].text;
  const failure = await client.callTool({ name: "fail" });
  seen.failure = [failure.isError, failure.content[0].text];

  await client.setLoggingLevel("info");
  const counted = await client.callTool({ name: "count", arguments: { upto: 2 } });
  seen.counted = counted.content[0].text;
  seen.logs = logs;

  // The SDK forgets progress that comes together with the answer, so this is of a call that only ends by being cancelled.
  const cancel = new AbortController();
  seen.progress = [];
  const options = {
    signal: cancel.signal,
    onprogress: ({ progress }) => {
      seen.progress.push(progress);
      cancel.abort();
    },
  };
  seen.waited = await client.callTool({ name: "wait" }, undefined, options).then(() => "answered", () => "cancelled");
  seen.stopped = (await client.readResource({ uri: "memo://cancelled" })).contents[0].text;

  seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
  seen.prompt = (await client.getPrompt({ name: "review", arguments: { code: "pass" } })).messages[0].content.text;
  const book = { type: "ref/resource", uri: "book://{author}/{title}" };
  const inTitle = { ref: book, argument: { name: "title", value: "s" }, context: { arguments: { author: "lem" } } };
  seen.completed = (await client.complete(inTitle)).completion.values;
  const inReview = { ref: { type: "ref/prompt", name: "review" }, argument: { name: "language", value: "r" } };
  seen["completed prompt"] = (await client.complete(inReview)).completion.values;

  seen.errors = [
    await codeOf(client.readResource({ uri: "memo://nowhere" })),
    await codeOf(client.callTool({ name: "nonesuch" })),
    await codeOf(client.getPrompt({ name: "nonesuch" })),
    await codeOf(client.listResources({ cursor: "not one of ours" })),
  ];
  console.log(JSON.stringify(seen));
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
