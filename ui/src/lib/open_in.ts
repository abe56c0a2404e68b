// Links and texts that hand a server over to another application.

import type { Struct } from "./types";

/** Encode UTF-8 text as base64. */
const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/** Return the link with which VS Code installs a server, after it has asked its user. */
export const vscodeLink = (name: string, entry: Struct): string => `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name, ...entry }))}`;

/** Return the link with which Cursor installs a server, after it has asked its user. */
export const cursorLink = (name: string, entry: Struct): string =>
  `cursor://anysphere.cursor-deeplink/mcp/install?name=${encodeURIComponent(name)}&config=${encodeURIComponent(base64(JSON.stringify(entry)))}`;

/** Return the JSON that Claude Desktop and others have in their configuration. */
export const configurationText = (name: string, entry: Struct): string => JSON.stringify({ mcpServers: { [name]: entry } }, null, 2);
