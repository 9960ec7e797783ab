// As whom a call reaches an MCP server: the result of `auth`, for the session of the call.
import { AsksUser, repliesIn } from '../../agent/asking.ts'
import { ToolError } from '../../agent/errors.ts'
import { sha256Hex } from '../../agent/sha256.ts'
import type { SourceContext } from '../../agent/tool.ts'
import { isObject } from '../../session/json.ts'
import type { CallQuestion, UserReplies } from '../../session/question-facts.ts'
import { messageOf } from './errors.ts'
import type { McpRules } from './options.ts'
import { isSignIn, urlOf } from './sign-in.ts'

/** Who a connection acts for. */
export interface McpIdentity {
  /** Tells identities apart, and says nothing about them. */
  key: string
  headers?: Readonly<Record<string, string>>
  /** A provider of the MCP SDK. */
  provider?: object
  /** Where the provider sent the user last. */
  redirect?: { url?: string }
}

/** The id of the question, which no server may use. */
export const SIGN_IN_ID = 'pawl/sign-in'
const MAX_URL = 4_000

/** The identity for calls without `auth`, and for the list of tools. */
export function sharedIdentity({ transport }: McpRules): McpIdentity {
  const provider = transport.type === 'http' ? transport.authProvider : undefined
  return provider ? identityOfProvider(provider) : { key: '' }
}

/**
 * The identity of the call. `refused`: the server has refused the one before it.
 * @throws ToolError `mcp_auth_failed`; AsksUser if the user must sign in.
 */
export async function identityOf(rules: McpRules, ctx: SourceContext, asked: PendingReplies, refused?: true): Promise<McpIdentity> {
  const identity = await identityOrSignIn(rules, ctx, refused)
  if (typeof identity === 'string') throw signInQuestion(rules, identity, asked)
  return identity
}

/** The identity of the session's user, or the URL at which the user must sign in first. @throws ToolError `mcp_auth_failed`. */
export async function identityOrSignIn(rules: McpRules, ctx: SourceContext, refused?: true): Promise<McpIdentity | string> {
  const { auth, name } = rules
  if (!auth) return sharedIdentity(rules)
  let given: unknown
  try {
    given = await auth(ctx as never, refused ? { refused } : {})
  } catch (error) {
    throw authFailed(name, `auth failed: ${messageOf(error)}`, error)
  }
  if (isSignIn(given)) return urlOf(given)
  const identity = identityIn(given)
  if (!identity) throw authFailed(name, 'auth must return a token, { headers }, { provider } or signIn(url)')
  return identity
}

function identityIn(given: unknown): McpIdentity | undefined {
  if (typeof given === 'string') return isHeader(given) ? identityOfHeaders({ authorization: `Bearer ${given}` }) : undefined
  if (!isObject(given)) return undefined
  const { headers, provider } = given as { headers?: unknown; provider?: unknown }
  if (isObject(headers) && Object.values(headers).every(isHeader)) return identityOfHeaders(headers as Record<string, string>)
  if (isObject(provider)) return identityOfProvider(provider)
  return undefined
}

const isHeader = (value: unknown): value is string => typeof value === 'string' && /^[\t\x20-\x7e\x80-\xff]+$/.test(value)

function identityOfHeaders(headers: Readonly<Record<string, string>>): McpIdentity {
  const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return { key: sha256Hex(JSON.stringify(entries.sort())), headers }
}

const identities = new WeakMap<object, McpIdentity>()
let providers = 0

/**
 * The identity of a provider, which has the tokens of one user. Only the object tells users apart: a context may be the same for several. The
 * provider that connections get also notes where it sends the user.
 */
function identityOfProvider(provider: object): McpIdentity {
  const known = identities.get(provider)
  if (known) return known
  const redirect: { url?: string } = {}
  const watched = new Proxy(provider, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (name === 'redirectToAuthorization')
        return async (url: URL): Promise<void> => {
          redirect.url = String(url)
          if (typeof value === 'function') await value.call(target, url)
        }
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const identity = { key: `provider ${++providers}`, provider: watched, redirect }
  identities.set(provider, identity)
  return identity
}

/** What the call has for its server so far, across a sign-in. */
export interface PendingReplies {
  /** The replies for the server. */
  forServer: UserReplies | undefined
  rounds: number
}

const MAX_ROUNDS = 20

/**
 * The replies of the call, without that to a sign-in. @throws ToolError `mcp_sign_in_declined`.
 */
export function pendingReplies({ name }: McpRules, ctx: object): PendingReplies {
  const given = repliesIn(ctx)
  const reply = given?.replies[SIGN_IN_ID]
  if (!given || !reply) return { forServer: given, rounds: given?.rounds ?? 0 }
  if (reply.action !== 'accept') {
    const message = `The user did not sign in to the MCP server "${name}".`
    throw new ToolError(message, { code: 'mcp_sign_in_declined', retryable: false, happened: false })
  }
  const forServer = given.state === undefined ? undefined : (JSON.parse(given.state) as UserReplies)
  return { forServer: forServer && { ...forServer, rounds: given.rounds }, rounds: given.rounds }
}

/** The question that waits for the sign-in. It keeps what the server is to get afterwards. */
export function signInQuestion({ name }: McpRules, url: string, { forServer, rounds }: PendingReplies): Error {
  const isWeb = url.length <= MAX_URL && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (!isWeb) return authFailed(name, 'the URL of the sign-in is not a web address')
  if (rounds >= MAX_ROUNDS) return authFailed(name, `the user has been asked ${MAX_ROUNDS} times to sign in`)
  const question: CallQuestion = { id: SIGN_IN_ID, from: name, message: `Sign in to ${name}.`, url }
  return new AsksUser([question], forServer && JSON.stringify(forServer))
}

function authFailed(server: string, problem: string, cause?: unknown): ToolError {
  return new ToolError(`The MCP server "${server}": ${problem}.`, { code: 'mcp_auth_failed', happened: false, cause })
}
