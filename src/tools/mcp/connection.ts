// A connection of one process to an MCP server: opened on demand, shared by all calls of an identity, closed when idle, and opened again after a
// death.
import type { CallToolResult, Client, InputRequiredResult, PriorDiscovery, Transport } from '@modelcontextprotocol/client'
import type { Logger } from '../../agent/tool.ts'
import { inTime } from '../../waiting/in-time.ts'
import { unlessAborted } from '../../waiting/unless-aborted.ts'
import type { UserReplies } from '../../session/question-facts.ts'
import type { McpIdentity } from './auth.ts'
import type { ListedTool } from './effects.ts'
import { AnswerTooLarge, unavailable } from './errors.ts'
import { withLimit } from './http.ts'
import { TOO_LARGE } from './line-limit.ts'
import { limitLists } from './list-limit.ts'
import type { McpRules } from './options.ts'
import { endWithProcess, killProcess, openTransport } from './transport.ts'
import { loadSdk } from './sdk.ts'

/** The longest timer of Node. The tool's own timeout ends a request earlier, through its signal. */
const NO_TIMEOUT_MS = 2_147_483_647
/** How long a server may take to end after its connection is closed, before its process is killed. */
const CLOSE_MS = 1_000
/** A stdio server of an older protocol may never answer the first request of the newer one. */
const PROBE_MS = 5_000

/** What a server lists. */
export interface ServerListing {
  tools: ListedTool[]
  /** Name, version and protocol of the server. */
  about: string
  /** Whether the server says when its tools change. */
  announces: boolean
}

export interface ToolRequest {
  tool: ListedTool
  args: Record<string, unknown>
  key: string
  /** The user's answers to what the server asked for, and what it sent with its questions. */
  replies?: UserReplies | undefined
  signal: AbortSignal
  log: Logger
  onProgress(progress: { progress: number; total?: number | undefined; message?: string | undefined }): void
}

export interface McpConnection {
  /** @throws whatever the server or its transport reports. */
  call(request: ToolRequest): Promise<CallToolResult | InputRequiredResult>
  /** @throws ToolError `mcp_unavailable`. */
  list(log: Logger): Promise<ServerListing>
  /** Where its provider last sent the user to sign in; undefined: nowhere. */
  signInUrl(): string | undefined
  close(): Promise<void>
}

interface OpenConnection {
  /** Which of the connections that were opened one after another it is; 0 while it connects. */
  nr: number
  client: Client
  transport: Transport & { pid?: number | null; sessionId?: string | undefined }
  /** Calls without an answer. */
  inFlight: number
  /** Whether the connection ended because the answer to its only call was larger than allowed. */
  isTooLarge: boolean
  /** Whether announcements of changes arrive. */
  isTold: boolean
}

/** The name of the key in `_meta`, for servers that know pawl. */
const KEY_META = 'dev.pawl/idempotency-key'

/**
 * What a server may ask of the user. Only calls of the newer protocol say so: a server of the older one would ask during the call, which
 * does not outlive a process.
 */
const CAPABILITIES = { elicitation: { form: {}, url: {} } }
const CAPABILITIES_META = 'io.modelcontextprotocol/clientCapabilities'

/**
 * A connection as this identity. `onChange`: the server's list of tools has changed, or may have changed unnoticed; absent: this connection
 * does not read the list. `onIdle`: the connection was closed because nobody has used it for a while.
 */
export function mcpConnection(
  rules: McpRules,
  identity: McpIdentity,
  { onChange, onIdle }: { onChange?: (() => void) | undefined; onIdle(): void },
): McpConnection {
  let current: Promise<OpenConnection> | undefined
  /** The number of the connection that was opened last. */
  let newest = 0
  /** The protocol of a stdio server, which is known after its first start: a second process would ask for it at each further start. */
  let prior: PriorDiscovery | undefined
  let busy = 0
  let idle: NodeJS.Timeout | undefined

  async function open(log: Logger): Promise<OpenConnection> {
    newest += 1
    const nr = newest
    const sdk = await loadSdk()
    const { transport, ends } = openTransport(sdk, rules, identity, log)
    const signal = AbortSignal.timeout(rules.listMs)
    const client = new sdk.Client(
      { name: 'pawl', version: '1' },
      {
        versionNegotiation: { mode: 'auto', probe: { timeoutMs: Math.min(PROBE_MS, rules.listMs) } },
        inputRequired: { autoFulfill: false },
      },
    )
    limitLists(client, rules.maxBytes)
    const opened: OpenConnection = { nr: 0, client, transport, inFlight: 0, isTooLarge: false, isTold: false }
    let forgetProcess = (): void => undefined
    if (onChange) client.setNotificationHandler('notifications/tools/list_changed', onChange)
    client.onerror = (error) => {
      if (saysTooLarge(error)) {
        // Of several calls, none may be blamed.
        opened.isTooLarge = opened.inFlight === 1
        leave(opened)
      }
      log.debug({ server: rules.name, err: error }, 'an error of the connection to an MCP server')
    }
    client.onclose = () => {
      forget(opened)
      forgetProcess()
      onChange?.()
    }
    try {
      await unlessAborted(signal, client.connect(transport, { signal, timeout: rules.listMs, ...(prior && { prior }) }))
    } catch (error) {
      prior = undefined
      void end(opened)
      throw unavailable(rules.name, ends() ?? error)
    }
    opened.nr = nr
    if (rules.transport.type === 'stdio') prior = protocolOf(client)
    listen(opened, log)
    if (typeof opened.transport.pid === 'number') forgetProcess = endWithProcess(opened.transport.pid)
    return opened
  }

  /**
   * Subscribes to announcements, if the server has them. With the older protocol, they arrive over stdio always, and over HTTP only if the
   * server allows a stream. Nothing waits for the subscription: a proxy may hold it back.
   */
  function listen(opened: OpenConnection, log: Logger): void {
    const { client } = opened
    if (!onChange || client.getServerCapabilities()?.tools?.listChanged !== true) return
    if (client.getDiscoverResult() === undefined) {
      opened.isTold = rules.transport.type === 'stdio'
      return
    }
    client.listen({ toolsListChanged: true }, { timeout: rules.listMs }).then(
      (subscription) => {
        opened.isTold = true
        return subscription.closed.then(() => {
          opened.isTold = false
          onChange()
        })
      },
      (err: unknown) => log.debug({ server: rules.name, err }, 'an MCP server does not announce changes of its tools'),
    )
  }

  /** Its answer cannot be read. Closing it would take seconds, and whatever else it was asked is lost with it. */
  function leave(opened: OpenConnection): void {
    forget(opened)
    const { pid } = opened.transport
    if (typeof pid === 'number') killProcess(pid)
  }

  /** The next request opens another connection, unless one has been opened since. */
  function forget({ nr }: OpenConnection): void {
    if (nr === newest) current = undefined
  }

  /** Uses the connection, which stays open while it is used. */
  async function use<T>(log: Logger, signal: AbortSignal, work: (connection: OpenConnection) => Promise<T>): Promise<T> {
    busy += 1
    clearTimeout(idle)
    try {
      const opening = (current ??= open(log))
      opening.catch(() => {
        if (current === opening) current = undefined
      })
      return await work(await unlessAborted(signal, opening))
    } finally {
      busy -= 1
      if (busy === 0) idle = setTimeout(closeIdle, rules.idleMs).unref()
    }
  }

  function closeIdle(): void {
    onIdle()
    void close()
  }

  async function close(): Promise<void> {
    clearTimeout(idle)
    const opening = current
    current = undefined
    const opened = await opening?.catch(() => undefined)
    if (opened) await end(opened)
  }

  return {
    close,
    signInUrl: () => identity.redirect?.url,
    async list(log) {
      const signal = AbortSignal.timeout(rules.listMs)
      const once = (): Promise<ServerListing> =>
        use(log, signal, async ({ client, isTold }) => {
          const { tools } = await withLimit(signal, (limited) =>
            unlessAborted(limited, client.listTools(undefined, { signal: limited, timeout: rules.listMs, cacheMode: 'refresh' })),
          )
          return { tools, about: aboutServer(client), announces: isTold }
        })
      try {
        // A call of another session may have been the end of the server.
        return await once().catch((error: unknown) => {
          if (!wasCutOff(error)) throw error
          return once()
        })
      } catch (error) {
        prior = undefined
        throw unavailable(rules.name, signal.aborted ? new Error(`it did not answer within ${rules.listMs} ms`) : error)
      }
    },
    async call(request) {
      const { signal, log } = request
      /** The error of a request that no server has accepted. */
      let lost: unknown
      const once = (): ReturnType<McpConnection['call']> =>
        use(log, signal, async (opened) => {
          opened.inFlight += 1
          try {
            return await withLimit(signal, (limited) => callOf(opened.client, { ...request, signal: limited }))
          } catch (error) {
            if (wasNotAccepted(error, opened)) {
              lost = error
              forget(opened)
              await end(opened)
            }
            throw opened.isTooLarge || isTooLarge(error) ? new AnswerTooLarge(rules.maxBytes) : error
          } finally {
            opened.inFlight -= 1
          }
        })
      try {
        return await once()
      } catch (error) {
        if (lost !== error || signal.aborted) throw error
        return once()
      }
    },
  }
}

function protocolOf(client: Client): PriorDiscovery {
  const discover = client.getDiscoverResult()
  return discover ? { kind: 'modern', discover } : { kind: 'legacy' }
}

function callOf(
  client: Client,
  { tool, args, key, replies, signal, onProgress }: ToolRequest,
): Promise<CallToolResult | InputRequiredResult> {
  // Without an output schema: the SDK would report a result that does not match it like a request that was refused.
  const { name, inputSchema } = tool
  const canAsk = client.getProtocolEra() === 'modern'
  const meta = { ...(key !== '' && { [KEY_META]: key }), ...(canAsk && { [CAPABILITIES_META]: CAPABILITIES }) }
  const { state: requestState, replies: inputResponses = {} } = replies ?? {}
  const retry = {
    ...(Object.keys(inputResponses).length > 0 && { inputResponses: { ...inputResponses } }),
    ...(requestState !== undefined && { requestState }),
  }
  return client.callTool(
    { name, arguments: args, ...(Object.keys(meta).length > 0 && { _meta: meta }), ...retry },
    {
      signal,
      timeout: NO_TIMEOUT_MS,
      onprogress: onProgress,
      allowInputRequired: true,
      toolDefinition: { name, inputSchema: inputSchema as { type: 'object' } },
    },
  ) as Promise<CallToolResult | InputRequiredResult>
}

/** Whether the request was not sent, or a server that was started again did not accept it because it does not know the session. */
function wasNotAccepted(error: unknown, { transport }: OpenConnection): boolean {
  const { code, status } = (error ?? {}) as { code?: unknown; status?: unknown }
  return code === 'NOT_CONNECTED' || (status === 404 && transport.sessionId !== undefined)
}

/** Whether the connection ended before the answer. */
function wasCutOff(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === 'CONNECTION_CLOSED'
}

const isTooLarge = (error: unknown): boolean => (error as { code?: unknown } | undefined)?.code === TOO_LARGE

/** Whether the connection ends because of an answer that is too large. The SDK's buffer reports its own limit only in words. */
function saysTooLarge(error: Error): boolean {
  return error instanceof AnswerTooLarge || error.message.startsWith('ReadBuffer exceeded maximum size')
}

/** Ends the connection, and kills a server that does not end by itself. */
async function end({ client, transport }: OpenConnection): Promise<void> {
  const { pid } = transport
  const closed = client.close().then(
    () => true,
    () => true,
  )
  if ((await inTime(closed, CLOSE_MS)) === undefined && typeof pid === 'number') killProcess(pid)
}

function aboutServer(client: Client): string {
  const { name = 'a server', version = '' } = client.getServerVersion() ?? {}
  return `${name} ${version}, protocol ${client.getNegotiatedProtocolVersion() ?? 'unknown'}`
}
