// The official TypeScript client 2.x reads every list of a server, and some of what is in them; prints it as JSON.
// typescript_sdk_2_lists.cjs MODE WANTED URL, as of python_sdk_2_lists.py.
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

const [mode, wanted, url] = process.argv.slice(2);

async function main() {
  const client = new Client({ name: "lists", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const wants = JSON.parse(wanted);
  const seen = {
    tools: (await client.listTools()).tools,
    prompts: (await client.listPrompts()).prompts,
    resources: (await client.listResources()).resources,
    templates: (await client.listResourceTemplates()).resourceTemplates,
    ...{ called: [], read: [], got: [] },
  };
  for (const [name, given] of wants.tools) seen.called.push(await client.callTool({ name, arguments: given }));
  for (const uri of wants.resources) seen.read.push(await client.readResource({ uri }));
  for (const [name, given] of wants.prompts) seen.got.push(await client.getPrompt({ name, arguments: given }));
  console.log(JSON.stringify(seen));
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
