import { en, type Dictionary } from "./en"; export const zh: Dictionary = en;
