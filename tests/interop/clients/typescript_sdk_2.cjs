// The official TypeScript client 2.x on a tour of a golden application; prints what it saw as JSON.
// typescript_sdk_2.cjs MODE (URL | COMMAND ARGUMENT…), MODE being "legacy" or "auto". Of the application that asks it sees
// what comes of its answers.
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [mode, ...target] = process.argv.slice(2);
const codeOf = (request) => request.then(() => null, (error) => error.code ?? String(error));

async function answered(client) {
  const seen = {};
  for (const name of ["greet", "book", "choose", "pay", "ponder", "look", "survey"])
    seen[name] = (await client.callTool({ name })).content[0].text;
  seen.prompt = (await client.getPrompt({ name: "greeting" })).messages[0].content.text;
  seen.resource = (await client.readResource({ uri: "memo://name" })).contents[0].text;
  return seen;
}

function answer(client) {
  client.setRequestHandler("elicitation/create", ({ params }) => {
    const known = { name: "Ada", value: true, letters: ["a"] };
    if (params.mode === "url") return { action: "accept" };
    const fields = Object.keys(params.requestedSchema.properties).filter((name) => name in known);
    return { action: "accept", content: Object.fromEntries(fields.map((name) => [name, known[name]])) };
  });
  client.setRequestHandler("sampling/createMessage", () => ({
    ...{ role: "assistant", content: { type: "text", text: "Paris" }, model: "m", stopReason: "endTurn" },
  }));
  client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///home/ada", name: "Home" }] }));
}

async function main() {
  const capabilities = { roots: {}, sampling: {}, elicitation: { form: {}, url: {} } };
  const client = new Client({ name: "tour", version: "1" }, { capabilities, versionNegotiation: { mode } });
  answer(client);
  const transport =
    target.length === 1
      ? new StreamableHTTPClientTransport(new URL(target[0]))
      : new StdioClientTransport({ command: target[0], args: target.slice(1) });
  const logs = [];
  let updated;
  const update = new Promise((resolve) => (updated = resolve));
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => updated(params.uri));
  client.setNotificationHandler("notifications/message", ({ params }) => {
    logs.push([params.level, params.data]);
  });
  await client.connect(transport);

  const revision = client.getNegotiatedProtocolVersion();
  const modern = revision === "2026-07-28";
  const seen = { revision, server: client.getServerVersion().name, instructions: client.getInstructions() };
  if (seen.server === "asking") {
    console.log(JSON.stringify({ revision, answered: await answered(client) }));
    return client.close();
  }

  // The client walks the pages by itself unless it is given a cursor.
  const listed = (await client.listResources()).resources;
  seen.uris = listed.map((resource) => resource.uri);
  seen.rich = listed.find((resource) => resource.name === "rich").title;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  seen.read = [];
  for (const uri of ["memo://plain", "memo://both", "book://le%20guin/the%20dispossessed"]) {
    for (const content of (await client.readResource({ uri })).contents) seen.read.push(content.text ?? content.blob);
  }

  let subscription;
  if (modern) subscription = await client.listen({ resourceSubscriptions: ["memo://watched"] });
  else await client.subscribeResource({ uri: "memo://watched" });
  await client.callTool({ name: "touch", arguments: { uri: "memo://watched" } });
  seen.updated = await update;
  if (modern) await subscription.close();
  else await client.unsubscribeResource({ uri: "memo://watched" });

  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  seen.blocks = (await client.callTool({ name: "blocks" })).content.map((block) => block.type);
  seen.structured = (await client.callTool({ name: "weather", arguments: { city: "Oslo" } })).structuredContent;
  seen["in a header"] = (await client.callTool({ name: "regional", arguments: { region: "日本" } })).content[0].text;
  const failure = await client.callTool({ name: "fail" });
  seen.failure = [failure.isError, failure.content[0].text];

  const meta = modern ? { _meta: { "io.modelcontextprotocol/logLevel": "info" } } : {};
  if (!modern) await client.setLoggingLevel("info");
  const counted = await client.callTool({ name: "count", arguments: { upto: 2 }, ...meta });
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
  seen.waited = await client.callTool({ name: "wait" }, options).then(() => "answered", () => "cancelled");
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
