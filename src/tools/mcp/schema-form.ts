// The schemas that servers write, in the form that providers accept. They check the schemas of all tools in every request: a single one that
// is not valid in draft 2020-12 fails each model call of the agent.
import { createRequire } from 'node:module'
import type * as Ajv from 'ajv/dist/2020.js'
import { beginningOf } from '../../session/beginning.ts'
import { isObject, type Json, type JsonObject } from '../../session/json.ts'

type Converted = { [name: string]: Json | undefined }

/** Keywords whose value is a schema, a list of schemas, or an object of named ones. */
const ONE = [
  'items',
  'additionalProperties',
  'contains',
  'propertyNames',
  'not',
  'if',
  'then',
  'else',
  'unevaluatedItems',
  'unevaluatedProperties',
  'contentSchema',
]
const SEVERAL = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']

const MAX_PROBLEM = 300
const DRAFT = 'https://json-schema.org/draft/2020-12/schema'

/** What is wrong with a schema, and where; undefined if it is valid in draft 2020-12. */
export function schemaProblem(schema: JsonObject): string | undefined {
  const ajv = (checker ??= newChecker())
  // Whichever draft it names, it will be read as one of this draft.
  if (ajv.validateSchema({ ...schema, $schema: DRAFT }) === true) return undefined
  const { instancePath, message } = ajv.errors?.[0] ?? {}
  return beginningOf(`${instancePath?.slice(1) || 'it'} ${message ?? 'is not valid'}`, MAX_PROBLEM)
}

let checker: Ajv.Ajv2020 | undefined

/** Loaded when a server is first used. */
function newChecker(): Ajv.Ajv2020 {
  const { Ajv2020: Checker } = createRequire(import.meta.url)('ajv/dist/2020.js') as typeof Ajv
  return new Checker({ strict: false, validateFormats: false, logger: false })
}

/** The schema in draft 2020-12: what earlier drafts write otherwise, and a list without `items`, which some providers refuse. */
export function inNewestDraft(schema: JsonObject): JsonObject {
  const { items, additionalItems, ...others } = schema
  const converted: Converted = Object.fromEntries(Object.entries(others).map(([name, value]) => [name, within(name, value as Json)]))
  for (const end of ['minimum', 'maximum'] as const) withNumber(converted, end)
  if (Array.isArray(items)) {
    if (items.length > 0) converted.prefixItems = items.map(schemaIn)
    converted.items = schemaIn(additionalItems ?? {})
  } else if (items !== undefined) converted.items = schemaIn(items)
  else if (isOfLists(others)) converted.items = {}
  return converted as JsonObject
}

const schemaIn = (value: Json): Json => (isObject(value) ? inNewestDraft(value as JsonObject) : value)

function within(name: string, value: Json): Json {
  if (ONE.includes(name)) return schemaIn(value)
  if (SEVERAL.includes(name) && Array.isArray(value)) return value.map(schemaIn)
  if (NAMED.includes(name) && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([member, schema]) => [member, schemaIn(schema as Json)]))
  return value
}

function isOfLists({ type, prefixItems }: JsonObject): boolean {
  return prefixItems === undefined && (type === 'array' || (Array.isArray(type) && type.includes('array')))
}

/** Draft 4 says with `true` that the limit itself is excluded. */
function withNumber(schema: Converted, end: 'minimum' | 'maximum'): void {
  const name = end === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum'
  const isExclusive = schema[name]
  if (typeof isExclusive !== 'boolean') return
  delete schema[name]
  if (!isExclusive || schema[end] === undefined) return
  schema[name] = schema[end]
  delete schema[end]
}
