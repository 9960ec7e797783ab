// The form for a question that a tool asks the user: its fields, and what was entered in them. Pure.
import { isObject, type Json, type JsonObject } from '../../../src/session/json.ts'

type Schema = Readonly<Record<string, unknown>>

/** A question, as events and lists have it. */
export interface ShownQuestion {
  from: string
  message: string
  schema?: Schema
  /** Where the user answers, instead of in a form. */
  url?: string
}

export interface Choice {
  value: string
  title: string
}

export interface QuestionField {
  name: string
  label: string
  isRequired: boolean
  kind: 'text' | 'number' | 'yes' | 'choice' | 'choices'
  /** Of a choice. */
  choices: readonly Choice[]
  /** What to enter. */
  hint: string
  /** What is entered unless the user changes it. */
  initial: readonly string[]
}

/** The fields of a question's schema, in its order. The service has checked that each is a text, a number, a boolean or a choice. */
export function fieldsOf({ properties, required }: Schema): QuestionField[] {
  const needed = Array.isArray(required) ? required : []
  return Object.entries(isObject(properties) ? properties : {}).map(([name, given]) => {
    const schema: Schema = isObject(given) ? given : {}
    const choices = choicesOf(schema)
    return {
      name,
      label: textOr(schema.title) ?? name,
      isRequired: needed.includes(name),
      kind: kindOf(schema, choices),
      choices: choices ?? [],
      hint: hintOf(schema),
      initial: initialOf(schema.default),
    }
  })
}

/** What the user has entered. A field that was left empty is no member. What is not a number, the service refuses. */
export function contentOf(fields: readonly QuestionField[], entered: FormData): JsonObject {
  const members = fields.flatMap(({ name, kind }): [string, Json][] => {
    const values = entered.getAll(name).filter((value) => typeof value === 'string' && value !== '') as string[]
    const [value] = values
    if (kind === 'yes') return [[name, value !== undefined]]
    if (value === undefined) return []
    if (kind === 'choices') return [[name, values]]
    return [[name, kind === 'number' ? numberIn(value) : value]]
  })
  return Object.fromEntries(members)
}

/** The address, if it is that of a page: anything else, such as a script, is not for a link. */
export function webAddress(url: string): URL | undefined {
  const address = URL.canParse(url) ? new URL(url) : undefined
  return address && /^https?:$/.test(address.protocol) ? address : undefined
}

function kindOf({ type }: Schema, choices: readonly Choice[] | undefined): QuestionField['kind'] {
  if (type === 'boolean') return 'yes'
  if (type === 'array') return 'choices'
  if (choices) return 'choice'
  return type === 'number' || type === 'integer' ? 'number' : 'text'
}

function choicesOf({ enum: values, enumNames, oneOf, anyOf, items }: Schema): Choice[] | undefined {
  if (isObject(items)) return choicesOf(items)
  const titled = Array.isArray(oneOf) ? oneOf : anyOf
  if (Array.isArray(titled))
    return titled.flatMap((one) =>
      isObject(one) && typeof one.const === 'string' ? [{ value: one.const, title: textOr(one.title) ?? one.const }] : [],
    )
  if (!Array.isArray(values)) return undefined
  const names: readonly unknown[] = Array.isArray(enumNames) ? enumNames : []
  return values.flatMap((value, nth) => (typeof value === 'string' ? [{ value, title: textOr(names[nth]) ?? value }] : []))
}

const FORMATS: Readonly<Record<string, string>> = {
  email: 'an email address',
  uri: 'an address such as https://example.com',
  date: 'a date such as 2026-07-28',
  'date-time': 'a time such as 2026-07-28T12:00:00Z',
}

function hintOf({ description, format, type, minimum, maximum }: Schema): string {
  const form = typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  const kind = type === 'integer' ? 'a whole number' : undefined
  const from = typeof minimum === 'number' ? `at least ${minimum.toLocaleString('en')}` : undefined
  const to = typeof maximum === 'number' ? `at most ${maximum.toLocaleString('en')}` : undefined
  return [textOr(description), form ?? kind, from, to].filter((part) => part !== undefined).join(', ')
}

function initialOf(given: unknown): string[] {
  if (given === true) return ['true']
  if (typeof given === 'string' || typeof given === 'number') return [String(given)]
  return Array.isArray(given) ? given.filter((one) => typeof one === 'string') : []
}

function numberIn(text: string): number | string {
  const number = Number(text.trim())
  return Number.isNaN(number) || text.trim() === '' ? text : number
}

function textOr(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
