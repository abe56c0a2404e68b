// Fields of a form, from a JSON schema. Whatever has no field is written as JSON.

import type { Json, Struct } from "./types";

export interface Choice {
  value: Json;
  label: string;
}

export interface Field {
  name: string;
  label: string;
  description: string | null;
  required: boolean;
  kind: "text" | "number" | "integer" | "boolean" | "choice" | "choices" | "json";
  choices: Choice[];
  format: string | null;
  initial: Json | undefined;
  minimum: number | null;
  maximum: number | null;
  maxLength: number | null;
}

const isStruct = (value: unknown): value is Struct => typeof value === "object" && value !== null && !Array.isArray(value);
const textOf = (value: unknown): string | null => (typeof value === "string" ? value : null);
const numberOf = (value: unknown): number | null => (typeof value === "number" ? value : null);

/** Follow local references, and unwrap `anyOf` with null. */
export function resolve(schema: Json | undefined, root: Struct, depth = 0): Struct {
  if (!isStruct(schema) || depth > 20) return {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#")) {
    let target: Json | undefined = root;
    for (const part of schema.$ref.slice(1).split("/").filter(Boolean)) {
      target = isStruct(target) ? target[decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~")] : undefined;
    }
    const { $ref: _, ...rest } = schema;
    return { ...resolve(target, root, depth + 1), ...rest };
  }
  const options = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(options)) {
    const real = options.filter((option) => !(isStruct(option) && option.type === "null"));
    const { anyOf: _, oneOf: __, ...rest } = schema;
    if (real.length === 1 && real.length < options.length) return { ...resolve(real[0], root, depth + 1), ...rest };
  }
  return schema;
}

function choicesOf(schema: Struct): Choice[] | null {
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, index) => ({ value, label: textOf(names[index]) ?? (typeof value === "string" ? value : JSON.stringify(value)) }));
  }
  const options = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(options) && options.length && options.every((option) => isStruct(option) && "const" in option)) {
    return (options as Struct[]).map((option) => ({ value: option.const!, label: textOf(option.title) ?? String(option.const) }));
  }
  return null;
}

function kindOf(schema: Struct, root: Struct): { kind: Field["kind"]; choices: Choice[] } {
  const choices = choicesOf(schema);
  if (choices) return { kind: "choice", choices };
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((type) => type !== "null");
  const [type] = types;
  if (types.length !== 1) return { kind: "json", choices: [] };
  if (type === "array") {
    const items = choicesOf(resolve(schema.items, root));
    return items ? { kind: "choices", choices: items } : { kind: "json", choices: [] };
  }
  if (type === "string") return { kind: "text", choices: [] };
  if (type === "number" || type === "integer" || type === "boolean") return { kind: type, choices: [] };
  return { kind: "json", choices: [] };
}

/** Return the fields of an object schema, or null if it cannot be shown as a form. */
export function fieldsOf(schema: Struct | null): Field[] | null {
  if (!schema) return [];
  const root = resolve(schema, schema);
  if (root.type !== undefined && root.type !== "object") return null;
  const properties = root.properties;
  // Conditions on the members need no fields: the JSON shows them, and the server checks them.
  if (!isStruct(properties) && (root.anyOf || root.oneOf || root.allOf || root.not || root.if)) return null;
  if (!isStruct(properties)) return root.additionalProperties === undefined || root.additionalProperties === false ? [] : null;
  const required = Array.isArray(root.required) ? root.required : [];
  return Object.entries(properties).map(([name, property]) => {
    const own = resolve(property, schema);
    return {
      name,
      label: textOf(own.title) ?? name,
      description: textOf(own.description),
      required: required.includes(name),
      ...kindOf(own, schema),
      format: textOf(own.format),
      initial: own.default,
      minimum: numberOf(own.minimum),
      maximum: numberOf(own.maximum),
      maxLength: numberOf(own.maxLength),
    };
  });
}

/** Return the JSON text to start with: the defaults of required members. */
export function initialText(fields: Field[] | null): string {
  const entries = (fields ?? []).filter(({ initial }) => initial !== undefined).map(({ name, initial }) => [name, initial] as const);
  return entries.length ? JSON.stringify(Object.fromEntries(entries), null, 2) : "{}";
}
