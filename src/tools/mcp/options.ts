// The options of `mcp`: their types, and their checks.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { z } from 'zod'
import { DeclarationError } from '../../agent/errors.ts'
import type {
  BasicToolOptions,
  ContextIn,
  ContextTypes,
  ServicesIn,
  SlicesIn,
  SourceContext,
  ToolContext,
  Verdict,
} from '../../agent/tool.ts'
import { checkOptions, duration, fn, integer, options, text, where } from '../../options/check.ts'
import type { Effect } from '../../session/call-facts.ts'
import { defined } from '../../session/defined.ts'
import type { Duration } from '../../session/duration.ts'
import { isObject, type Json, type JsonObject } from '../../session/json.ts'
import type { SignIn } from './sign-in.ts'

/** How pawl reaches an MCP server: a process that it starts, or a URL. */
export type McpTransport =
  | {
      type: 'stdio'
      /** The program. It ends with the executor that started it. */
      command: string
      /** Its arguments. Default: none. */
      args?: readonly string[]
      /** Variables of its environment, besides `PATH`, `HOME` and the like. Default: none. */
      env?: Readonly<Record<string, string>>
      /** Its working directory. Default: the worker's. */
      cwd?: string
    }
  | {
      type: 'http'
      /** The address of a server that speaks Streamable HTTP. */
      url: string | URL
      /** Headers for the server's requests, or a function that is called before each request and returns them. They are never recorded. Default: none. */
      headers?: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)
      /** An `OAuthClientProvider` or `AuthProvider` of the MCP SDK, for all sessions alike; for each user, see `auth`. Default: none. */
      authProvider?: object
    }

/**
 * What `auth` returns: a bearer token, headers, an `OAuthClientProvider` of the MCP SDK with the user's tokens, or `signIn(url)` if the user
 * must sign in first.
 */
export type McpCredentials = string | { headers: Readonly<Record<string, string>> } | { provider: object } | SignIn

/** What an MCP tool returned. */
export interface McpResult {
  /** Text, images, resources and other parts, as the server sent them. */
  content: readonly JsonObject[]
  /** The result as JSON, if the tool has an output schema. */
  structuredContent?: Json
}

/** The options of `defineTool` that an MCP tool already has, or that are options of `mcp`. */
type NotOfMcpTools = 'name' | 'description' | 'input' | 'effect' | 'execute' | 'verify'

/** The options in `effects` for a tool with the effect `E`: the effect, and other options of `defineTool`. */
export interface McpToolOptions<E extends Effect, T extends ContextTypes>
  // oxlint-disable-next-line typescript/no-explicit-any -- the input of any tool of the server
  extends Omit<BasicToolOptions<StandardSchemaV1<unknown, any>, McpResult, E, StandardSchemaV1, T>, NotOfMcpTools> {
  /** How the tool affects the outside world. */
  effect: E
}

/** The effect of tools: alone, with other options, or according to the server's annotations. */
export type McpEffect<T extends ContextTypes> = Effect | 'annotations' | { [E in Effect]: McpToolOptions<E, T> }[Effect]

/** How another tool of the same server says whether a call happened. */
export interface McpVerify<T extends ContextTypes> {
  /** The server's name of a tool that only reads. */
  tool: string
  /** Its arguments. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the input of any tool of the server
  input: (input: any, ctx: ToolContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>) => JsonObject | Promise<JsonObject>
  /** What its result says. */
  verdict: (
    result: McpResult,
    // oxlint-disable-next-line typescript/no-explicit-any -- the input of any tool of the server
    input: any,
    ctx: ToolContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>,
  ) => Verdict<Json | McpResult> | Promise<Verdict<Json | McpResult>>
}

/**
 * Options of `mcp`. The keys of `effects`, `errors`, `key` and `verify` are the server's names of tools, in which `*` stands for any
 * characters. A full name takes precedence over a pattern, and an earlier pattern over a later one.
 */
export interface McpOptions<T extends ContextTypes> {
  /** Begins the names of its tools: `<name>__<tool>`. 1 to 32 of `[A-Za-z0-9-]`, and unique within an agent. */
  name: string
  /** How to reach the server. */
  transport: McpTransport
  /**
   * How the tools affect the outside world. `'annotations'`, for a server that you trust: `readOnlyHint` makes a tool a `read`,
   * `idempotentHint` an `idempotent` one, and any other value of these an `external` one. A tool that no rule names is `external`, and each
   * of its calls needs approval.
   */
  effects?: 'annotations' | Readonly<Record<string, McpEffect<T>>>
  /** Which tools the agent gets: those in `allow` (default: all) that are not in `block` (default: none). Names or patterns. */
  tools?: { allow?: readonly string[]; block?: readonly string[] }
  /**
   * For `external` tools: `'did_not_happen'` if an error result means that nothing has happened. Default: the outcome of such a call is
   * unknown, because an error may follow a partial effect.
   */
  errors?: Readonly<Record<string, 'did_not_happen' | 'unknown'>>
  /** The argument in which a tool takes the idempotency key. The model does not see it. Default: the key is only in `_meta`. */
  key?: Readonly<Record<string, string>>
  /** For `external` tools: how another tool of the server says whether a call happened. Default: a person decides. */
  verify?: Readonly<Record<string, McpVerify<T>>>
  /**
   * For servers over HTTP: as whom a call is made, for the `context` of its session. Called for each attempt, and with `list: 'user'` for each
   * model call; `about.refused`: the server has refused what it returned before. What it returns is never recorded, except the URL of a
   * sign-in. Default: all calls are made with the transport's `headers` or `authProvider`.
   */
  auth?: (ctx: SourceContext<ContextIn<T>, ServicesIn<T>>, about: { refused?: true }) => McpCredentials | Promise<McpCredentials>
  /**
   * As whom the list of tools is read: `'shared'`, once for all sessions, with the transport's `headers` or `authProvider`; or `'user'`, as
   * `auth` says, for servers that list nothing, or other tools, without the user's sign-in. While the user has not signed in, the agent has
   * one tool of the server, which asks for that: `<name>__user_sign_in`. Default `'shared'`.
   */
  list?: 'shared' | 'user'
  /**
   * How many connections one executor has to the server, from 1 to 1,000: with `auth`, one for each user. The least recently used one that is
   * idle is closed for another. A call that finds all in use waits, and fails with `mcp_busy` before its timeout. Default 50.
   */
  maxConnections?: number
  /** How long a call may take, unless `effects` says otherwise. At most 24 days. Default `'60s'`. */
  timeout?: Duration
  /** How long connecting and reading the list of tools may take together. Default `'30s'`. */
  listTimeout?: Duration
  /** How long an unused connection stays open. Default `'5m'`. */
  idleTimeout?: Duration
  /** How many bytes an answer of the server, or its list of tools in all pages, may have, from 1,000 to 64,000,000. Default 10,000,000. */
  maxResultBytes?: number
}

/** A rule of `effects`, unchecked beyond its effect. */
export type EffectRule = Effect | 'annotations' | ({ effect: Effect } & Record<string, unknown>)

/** The options, checked and completed. */
export interface McpRules {
  name: string
  transport: McpTransport
  effects: Readonly<Record<string, EffectRule>>
  allow: readonly string[]
  block: readonly string[]
  errors: Readonly<Record<string, 'did_not_happen' | 'unknown'>>
  key: Readonly<Record<string, string>>
  verify: Readonly<Record<string, McpVerify<object>>>
  auth: McpOptions<object>['auth']
  list: 'shared' | 'user'
  maxConnections: number
  timeoutMs: number
  listMs: number
  idleMs: number
  maxBytes: number
}

const EFFECTS = ['read', 'idempotent', 'external']
const AN_EFFECT = "'read', 'idempotent', 'external', 'annotations', or an object with `effect` and other options of defineTool"

const isEffectRule = (rule: unknown): boolean => rule === 'annotations' || EFFECTS.includes((isObject(rule) ? rule.effect : rule) as string)

const headers = z.union(
  [z.record(z.string(), z.string()), fn<() => Record<string, string>>()],
  'an object of strings, or a function that returns one',
)

const TRANSPORT = z.discriminatedUnion('type', [
  options({
    type: z.literal('stdio'),
    command: text(),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
    cwd: text().optional(),
  }),
  options({
    type: z.literal('http'),
    url: where<string | URL>((url) => /^https?:$/.test(URL.canParse(String(url)) ? new URL(String(url)).protocol : ''), 'an http(s) URL'),
    headers: headers.optional(),
    authProvider: where<object>((value) => typeof value === 'object' && value !== null, 'a provider of the MCP SDK').optional(),
  }),
])

const VERIFY = options({ tool: text(), input: fn<McpVerify<object>['input']>(), verdict: fn<McpVerify<object>['verdict']>() })

const OPTIONS = options({
  name: where<string>(
    (name) => typeof name === 'string' && /^[A-Za-z0-9-]{1,32}$/.test(name),
    '1 to 32 characters of [A-Za-z0-9-], which begin the names of its tools',
  ),
  transport: TRANSPORT,
  effects: z.union([z.literal('annotations'), z.record(z.string(), where<EffectRule>(isEffectRule, AN_EFFECT))]).optional(),
  tools: options({ allow: z.array(text()).optional(), block: z.array(text()).optional() }).optional(),
  errors: z.record(z.string(), z.enum(['did_not_happen', 'unknown'])).optional(),
  key: z.record(z.string(), text('the name of an argument')).optional(),
  verify: z.record(z.string(), VERIFY).optional(),
  auth: fn<NonNullable<McpOptions<object>['auth']>>().optional(),
  list: z.enum(['shared', 'user']).optional(),
  maxConnections: integer(1, 1_000).optional(),
  timeout: duration().optional(),
  listTimeout: duration().optional(),
  idleTimeout: duration().optional(),
  maxResultBytes: integer(1_000, 64_000_000).optional(),
})

/** The options, completed. @throws DeclarationError `invalid_mcp_server`. */
export function rulesOf(given: unknown): McpRules {
  const name = (given as { name?: unknown } | undefined)?.name
  const refuse = (problem: string): DeclarationError =>
    new DeclarationError('invalid_mcp_server', typeof name === 'string' ? `MCP server "${name}": ${problem}` : `mcp: ${problem}`)
  const checked = checkOptions(OPTIONS, given, refuse)
  if (checked.auth && checked.transport.type !== 'http') throw refuse('auth is for servers over HTTP. Pass credentials in transport.env.')
  if (checked.list === 'user' && !checked.auth) throw refuse("list: 'user' needs auth, which says who the user is.")
  const {
    list = 'shared',
    maxConnections = 50,
    effects = {},
    tools = {},
    timeout = 60_000,
    listTimeout = 30_000,
    idleTimeout = 300_000,
    maxResultBytes = 10_000_000,
  } = checked
  return {
    name: checked.name,
    transport: defined(checked.transport) as McpTransport,
    effects: effects === 'annotations' ? { '*': 'annotations' } : effects,
    allow: tools.allow ?? ['*'],
    block: tools.block ?? [],
    errors: checked.errors ?? {},
    key: checked.key ?? {},
    verify: checked.verify ?? {},
    auth: checked.auth,
    list,
    maxConnections,
    timeoutMs: timeout,
    listMs: listTimeout,
    idleMs: idleTimeout,
    maxBytes: maxResultBytes,
  }
}
