"""A tool with a page (MCP Apps): users see a rolling dice, and the model reads the result as text.

    python examples/app_ui.py

The page communicates with its host over postMessage, in JSON-RPC: it initializes, receives the result of the tool call,
and calls tools itself. https://github.com/modelcontextprotocol/ext-apps has a library for that.
"""

import random

from carrel import Server

PAGE = """<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <title>Dice</title>
  <style>
    body { font: 2rem system-ui; color: var(--color-text-primary, #222); text-align: center }
    button { font: inherit }
  </style>
  <p id="sum">…</p>
  <button id="again">Again</button>
  <script>
    let id = 0;
    const waiting = new Map();
    const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
    const ask = (method, params) => new Promise((resolve) => {
      waiting.set(++id, resolve);
      send({ id, method, params });
    });
    const show = (result) => {
      const { rolls, sum } = result.structuredContent;
      document.getElementById("sum").textContent = `${rolls.join(" + ")} = ${sum}`;
    };
    addEventListener("message", ({ source, data }) => {
      if (source !== parent) return;
      if (data.method === "ui/notifications/tool-result") show(data.params);
      if (waiting.has(data.id)) waiting.get(data.id)(data.result);
    });
    document.getElementById("again").onclick = async () => {
      show(await ask("tools/call", { name: "roll_again", arguments: {} }));
    };
    ask("ui/initialize", {
      protocolVersion: "2026-01-26",
      appInfo: { name: "dice", version: "1.0" },
      appCapabilities: { availableDisplayModes: ["inline"] },
    }).then(() => send({ method: "ui/notifications/initialized" }));
  </script>
</html>
"""

app = Server("dice", version="1.0")
app.ui("ui://dice/page.html", PAGE, title="Dice", prefers_border=True)


@app.tool(ui="ui://dice/page.html")
async def roll(count: int = 2) -> dict[str, list[int] | int]:
    """Roll some dice."""
    rolls = [random.randint(1, 6) for _ in range(count)]
    return {"rolls": rolls, "sum": sum(rolls)}


@app.tool(ui="ui://dice/page.html", visibility=["app"])
async def roll_again() -> dict[str, list[int] | int]:
    """Roll two dice, for the button on the page. Models do not see this tool."""
    return await roll(2)


if __name__ == "__main__":
    app.run()
