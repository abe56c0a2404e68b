// Tools whose results an app shows (MCP Apps).

import { get, path } from "./api";
import type { Item, Struct } from "./types";

/** Return whether a tool has an app. */
export function hasApp(tool: Struct | null): boolean {
  const meta = (tool?._meta ?? {}) as Struct;
  const uri = (meta.ui as Struct | undefined)?.resourceUri ?? meta["ui/resourceUri"];
  return typeof uri === "string" && uri.startsWith("ui://");
}

/** Return the definition of a tool that has an app; null if it has none, or is not there any more. */
export async function appTool(server: string, name: string): Promise<Struct | null> {
  try {
    const { item } = await get<Item>(path("/api/item", { kind: "tool", server, name }));
    return hasApp(item) ? item : null;
  } catch {
    return null;
  }
}
