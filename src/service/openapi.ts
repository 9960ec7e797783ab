// The OpenAPI 3.1 document of the routes. zod generates the JSON schemas, in the dialect of OpenAPI 3.1.
import { z } from 'zod'
import { defined } from '../session/defined.ts'
import type { Json, JsonObject } from '../session/json.ts'
import { ANSWERS, COMPONENTS } from './answer-schemas.ts'
import { PROBLEM_TYPE } from './problem.ts'
import type { RequestMembers, Route } from './route.ts'

/** What the document describes. */
export interface DocumentOptions {
  routes: readonly Route[]
  /** The path that requests have before those of the routes: `/api/pawl`, or nothing. */
  basePath: string
}

const TAGS: readonly [string, string][] = [
  ['sessions', 'Send messages to sessions, and read them.'],
  ['decisions', 'Decide on calls that wait for a person or a client.'],
  ['lists', 'Everything that the caller may see.'],
  ['operations', 'Repair and steer sessions.'],
  ['schedules', 'Send messages to sessions at regular times.'],
  ['webhooks', 'Notify an address of what happens in sessions.'],
  ['health', 'Probes; they need no credentials.'],
]

export function documentOf({ routes, basePath }: DocumentOptions): JsonObject {
  const paths: Record<string, JsonObject> = {}
  for (const one of routes) {
    paths[one.path] = { ...paths[one.path], [one.method]: operationOf(one) }
  }
  for (const [path, about] of Object.entries(PROBES)) paths[path] = { get: probeOf(about) }
  return {
    openapi: '3.1.0',
    info: {
      title: 'pawl',
      // The version of the interface, as in its paths.
      version: '1.0.0',
      description: 'Sessions of durable agents. Refusals are problems (RFC 9457) with a stable `code`.',
    },
    // Without a path of its own, the handler may still be mounted at one that a framework or a proxy removes: clients resolve a relative
    // address against that of the document, which is right in each case.
    servers: [{ url: basePath === '' ? '.' : basePath }],
    tags: TAGS.map(([name, description]) => ({ name, description })),
    security: [{ credentials: [] }],
    paths,
    components: {
      securitySchemes: { credentials: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: PROBLEM, ProbeAnswer: PROBE_ANSWER, ...COMPONENTS },
      responses: { Problem: { description: 'A refusal.', content: { [PROBLEM_TYPE]: { schema: ref('schemas/Problem') } } } },
    },
  } as JsonObject
}

const ref = (to: string): JsonObject => ({ $ref: `#/components/${to}` })

const PROBLEM: JsonObject = {
  type: 'object',
  required: ['type', 'title', 'status', 'code', 'detail', 'userMessage'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', description: 'Stable: programs can branch on it.' },
    detail: { type: 'string', description: 'What happened, and what to do next, for developers.' },
    userMessage: { type: 'string', description: 'What a page may show to its user, in English.' },
    parts: {
      type: 'array',
      description: 'Which parts of the request were refused.',
      items: { type: 'object', required: ['at', 'detail'], properties: { at: { type: 'string' }, detail: { type: 'string' } } },
    },
    waitsFor: { type: 'string', description: 'What the session waits for.' },
  },
}

const PROBES = {
  '/health': { operation: 'getHealth', summary: 'Whether the process answers.', may: ['200'] },
  '/ready': { operation: 'getReadiness', summary: 'Whether requests should be sent here.', may: ['200', '503'] },
}

const PROBE_ANSWER: JsonObject = { type: 'object', required: ['status'], properties: { status: { type: 'string' } } }

function probeOf({ operation, summary, may }: (typeof PROBES)['/ready']): JsonObject {
  const answer = { description: summary, content: { 'application/json': { schema: ref('schemas/ProbeAnswer') } } }
  return {
    operationId: operation,
    summary,
    tags: ['health'],
    security: [],
    responses: { ...Object.fromEntries(may.map((status) => [status, answer])), ...PROBLEMS },
  }
}

/** Any request may get these: the default covers statuses that are not listed. */
const PROBLEMS = { default: ref('responses/Problem') }

function operationOf(one: Route): JsonObject {
  const { answer } = one
  const content = answer.schema && { [answer.type ?? 'application/json']: { schema: answerOf(one.operation, answer.schema) } }
  const headers = answer.headers && {
    headers: Object.fromEntries(
      Object.entries(answer.headers).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
    ),
  }
  return {
    operationId: one.operation,
    summary: one.summary,
    description: `Needs the scope \`${one.scope}\`.`,
    tags: [one.tag],
    parameters: [
      ...parametersIn('path', one.params),
      ...parametersIn('query', one.query),
      ...Object.entries(one.headers ?? {}).map(([name, schema]) => parameterOf('header', name, schemaOf(schema, 'input'), false)),
    ],
    ...(one.body && { requestBody: bodyOf(one.body) }),
    responses: {
      [answer.status]: { description: answer.description, ...headers, ...(content && { content }) },
      ...(answer.none && { 204: { description: answer.none } }),
      ...Object.fromEntries(REFUSALS.map((status) => [status, ref('responses/Problem')])),
      ...PROBLEMS,
    },
  } as JsonObject
}

/** The schema of an answer. That of an event of a stream says what its data are. */
function answerOf(operation: string, schema: z.ZodType | 'typed'): JsonObject {
  const typed = (ANSWERS as Readonly<Record<string, JsonObject>>)[operation]
  if (schema === 'typed') {
    if (!typed) throw new Error(`answers.ts does not have the operation ${operation}.`)
    return typed
  }
  const shown = schemaOf(schema, 'output')
  const { data } = (shown.properties ?? {}) as { data?: JsonObject }
  if (!typed || !data) return shown
  const contentSchema = { anyOf: [typed, ref('schemas/Problem')] }
  return { ...shown, properties: { ...(shown.properties as JsonObject), data: { ...data, contentSchema } } }
}

const REFUSALS = ['400', '401', '403', '404', '409', '429', '503'] as const

function bodyOf(body: RequestMembers): Json {
  const schema = schemaOf(body, 'input')
  return { required: Array.isArray(schema.required) && schema.required.length > 0, content: { 'application/json': { schema } } }
}

function parametersIn(place: 'path' | 'query', members: RequestMembers | undefined): JsonObject[] {
  if (!members) return []
  const { properties = {}, required = [] } = schemaOf(members, 'input') as { properties?: Record<string, JsonObject>; required?: string[] }
  return Object.entries(properties).map(([name, schema]) => parameterOf(place, name, schema, required.includes(name)))
}

function parameterOf(place: string, name: string, { description, ...schema }: JsonObject, required: boolean): JsonObject {
  return { name, in: place, required, ...defined({ description }), schema }
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest as JsonObject
}
