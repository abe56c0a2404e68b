// Tasks: tool calls that continue on their server.

import type { TaskView } from "./types";

export const isRunning = ({ status }: Pick<TaskView, "status">): boolean => status === "working" || status === "input_required";

/** Whether the server, which says so for a tool, makes tasks of calls; null: it decides for each call, or is not known to. */
export function taskSupport(tool: { [name: string]: unknown } | null): "required" | "optional" | "forbidden" | null {
  const support = (tool?.execution as { taskSupport?: unknown } | null | undefined)?.taskSupport;
  return support === "required" || support === "optional" || support === "forbidden" ? support : null;
}
