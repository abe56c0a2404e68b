import { afterEach, expect, test } from "vitest";
import { whyChosen, whyFailed, whyInvalid, whyLeftOut, whyStepFailed } from "../src/lib/reasons";
import { settings } from "../src/lib/settings.svelte";
import type { Chip, Reason, ServerStatus } from "../src/lib/types";

const BOTH: Reason = {
  pinned: false, open: true, matched: true, words: ["tea", "pot"], more: false,
  inName: true, inHeading: false, lines: 2, beside: false, whole: true, small: true,
};

afterEach(() => settings.setLanguage(null));

test.each([
  ["en", "open, matches 'tea', 'pot' in the name and 2 lines, whole, as it is small"],
  ["de", "geöffnet, enthält „tea“, „pot“ im Namen und in 2 Zeilen, ganz, weil klein"],
  ["zh", "已打开，名称和 2 行中有“tea”“pot”，篇幅短，收入全文"],
] as const)("an item says in %s why it is there", (language, sentence) => {
  settings.setLanguage(language);
  expect(whyChosen(BOTH)).toBe(sentence);
});

test("an item without a word of the question was found by the search", () => {
  settings.setLanguage("en");
  expect(whyChosen({ ...BOTH, open: false, words: [], whole: false })).toBe("found by the search");
  expect(whyChosen({ ...BOTH, open: false, matched: false, pinned: true, small: false })).toBe("whole");
});

test("a resource says why it is left out, also in words that the page does not know", () => {
  settings.setLanguage("de");
  expect(whyLeftOut("over the budget")).toBe("über dem Budget");
  expect(whyLeftOut("near-duplicate of file:///a")).toBe("fast gleich wie file:///a");
  expect(whyLeftOut("something new")).toBe("something new");
});

const FAILED = { reason: "the connection is closed\nIts standard error ends with:\n…", cause: "unreachable" } as ServerStatus;

test.each([
  ["en", "the connection is closed", "there is no program carrot", "it cannot be reached"],
  ["de", "er ist nicht erreichbar, oder sein Programm ist beendet", "Das Programm carrot gibt es nicht", "er ist nicht erreichbar, oder sein Programm ist beendet"],
  ["zh", "无法连接，或其程序已结束", "没有程序 carrot", "无法连接，或其程序已结束"],
] as const)("a failed connection says in %s why", (language, reason, program, initialize) => {
  settings.setLanguage(language);
  expect(whyFailed(FAILED)).toBe(reason);
  expect(whyStepFailed({ step: "program", ok: false, detail: "there is no program carrot" }, FAILED)).toBe(program);
  expect(whyStepFailed({ step: "initialize", ok: false, detail: "it cannot be reached" }, FAILED)).toBe(initialize);
  expect(whyStepFailed({ step: "program", ok: true, detail: "/usr/bin/carrot" }, FAILED)).toBe("/usr/bin/carrot");
});

test("a wrong filter says in the language of the page what to write", () => {
  const chip = { field: "size", problem: "write a size, as in size:<1MB" } as Chip;
  settings.setLanguage("en");
  expect(whyInvalid(chip)).toBe("write a size, as in size:<1MB");
  settings.setLanguage("de");
  expect(whyInvalid(chip)).toBe("Schreiben Sie eine Größe, etwa size:<1MB");
  expect(whyInvalid({ ...chip, problem: "the value is missing" })).toBe("Der Wert fehlt");
  expect(whyInvalid({ ...chip, problem: null })).toBeNull();
});
