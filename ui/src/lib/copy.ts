// Copying and saving texts.

import { ui } from "./ui.svelte";
import { t } from "./words.svelte";

/** Copy a text and say so. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    ui.say(t("copied"));
  } catch {
    ui.say(t("copyFailed"));
  }
}

/** Save a text as a file. */
export function save(name: string, text: string, mimeType: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: mimeType }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  ui.say(t("saved"));
}
