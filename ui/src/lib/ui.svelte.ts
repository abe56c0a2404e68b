// What is open above the page, and moving the focus between regions.

export type Overlay = "palette" | "help" | "settings" | null;
export type DrawerTab = "chat" | "wire" | "interface" | "tasks" | "questions" | "log";

class Ui {
  overlay = $state<Overlay>(null);
  drawer = $state<DrawerTab | null>(null);
  /** Server whose standard error the drawer shows. */
  logServer = $state("");
  /** Question that the dialog shows; null: none, although some may be pending. */
  question = $state<string | null>(null);
  /** Whether the tree is asked to show the row of the selected resource. */
  reveal = $state(false);
  /** Message for screen readers and for a moment on the screen. */
  said = $state("");
  private timer: ReturnType<typeof setTimeout> | undefined;

  say(text: string): void {
    this.said = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.said = ""), 4000);
  }
}

export const ui = new Ui();

const visible = (element: HTMLElement): boolean => element.getClientRects().length > 0;

/** Focus a region: what it marks with data-focus, else its first control, else itself. */
export function focusRegion(region: HTMLElement): void {
  const targets = [...region.querySelectorAll<HTMLElement>("[data-focus]"), ...region.querySelectorAll<HTMLElement>("button, input, a[href]")];
  (targets.find(visible) ?? region).focus();
}

/** Focus the next or previous region on the screen. */
export function nextRegion(by: 1 | -1): void {
  const regions = [...document.querySelectorAll<HTMLElement>("section.region")].filter(visible);
  const current = regions.findIndex((region) => region.contains(document.activeElement));
  const next = regions[(current + by + regions.length) % regions.length];
  if (next) focusRegion(next);
}

/** Move between the tabs of a tablist with the arrow keys. */
export function tabKeys(event: KeyboardEvent): void {
  const tabs = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role="tab"]')];
  const current = tabs.indexOf(document.activeElement as HTMLElement);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const target = step ? tabs[(current + step + tabs.length) % tabs.length] : { Home: tabs[0], End: tabs.at(-1) }[event.key];
  if (!target) return;
  event.preventDefault();
  target.focus();
  target.click();
}
