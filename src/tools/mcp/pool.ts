// The connections of one process to an MCP server: one for each identity, at most as many as allowed.
import { setTimeout as sleep } from 'node:timers/promises'
import { ToolError } from '../../agent/errors.ts'
import { type McpConnection, mcpConnection, type ServerListing } from './connection.ts'
import type { McpIdentity } from './auth.ts'
import type { McpRules } from './options.ts'
import type { Logger } from '../../agent/tool.ts'
import { numberText } from '../../session/number-text.ts'

/** The connections to a server. */
export interface McpPool {
  /**
   * Uses the identity's connection, which stays open meanwhile. Waits for `waitMs` at most if all connections are in use by others.
   * @throws ToolError `mcp_busy`, and whatever `work` throws.
   */
  use<T>(identity: McpIdentity, how: UseOptions, work: (connection: McpConnection) => Promise<T>): Promise<T>
  /** Reads the list of tools, as nobody in particular. @throws ToolError `mcp_unavailable`. */
  list(log: Logger): Promise<ServerListing>
  close(): Promise<void>
}

interface Pooled {
  connection: McpConnection
  /** Uses in progress. */
  busy: number
}

/** A use that waits for a connection. */
interface WaitingUse {
  /** Of its identity. */
  key: string
  isWoken: boolean
  resume(): void
}

interface UseOptions {
  waitMs: number
  signal: AbortSignal
}

/** `shared`: the identity that reads the list. `onChange`: as in `mcpConnection`. */
export function mcpPool(rules: McpRules, shared: McpIdentity, onChange: () => void): McpPool {
  /** By identity, the least recently used first. */
  const pooled = new Map<string, Pooled>()
  /** Those who wait for a place, in order. */
  const waiting: WaitingUse[] = []

  function placeFor(identity: McpIdentity): Pooled | undefined {
    const known = pooled.get(identity.key)
    if (known) return asNewest(identity.key, known)
    if (pooled.size >= rules.maxConnections && !evictIdle()) return undefined
    // Only the connection that reads the list says when it may have changed.
    const follow = identity.key === shared.key ? onChange : undefined
    const connection = mcpConnection(rules, identity, { onChange: follow, onIdle: () => forget(identity.key) })
    // Others who wait as the same identity share it.
    for (const one of waiting.filter(({ key }) => key === identity.key)) wake(one)
    return asNewest(identity.key, { connection, busy: 0 })
  }

  function asNewest(key: string, one: Pooled): Pooled {
    pooled.delete(key)
    pooled.set(key, one)
    return one
  }

  /** Closes the least recently used connection that nobody uses. Returns whether there was one. */
  function evictIdle(): boolean {
    const idle = [...pooled].find(([, { busy }]) => busy === 0)
    if (!idle) return false
    const [key, { connection }] = idle
    pooled.delete(key)
    void connection.close()
    return true
  }

  function forget(key: string): void {
    if (pooled.get(key)?.busy === 0) pooled.delete(key)
  }

  /** Waits until a connection may have become free. */
  async function untilFree(one: WaitingUse, ms: number, signal: AbortSignal): Promise<void> {
    const ended = new AbortController()
    const freed = new Promise<void>((resolve) => {
      one.resume = resolve
    })
    waiting.push(one)
    try {
      await Promise.race([freed, sleep(ms, undefined, { signal: AbortSignal.any([signal, ended.signal]) })])
    } finally {
      ended.abort()
      remove(one)
    }
  }

  function remove(one: WaitingUse): void {
    const at = waiting.indexOf(one)
    if (at >= 0) waiting.splice(at, 1)
  }

  function wake(one: WaitingUse | undefined): void {
    if (!one) return
    remove(one)
    one.isWoken = true
    one.resume()
  }

  /** Finds a place, which counts as used at once, so that no other identity takes it. */
  async function acquire(identity: McpIdentity, { waitMs, signal }: UseOptions): Promise<Pooled> {
    const until = performance.now() + waitMs
    const one: WaitingUse = { key: identity.key, isWoken: false, resume: () => undefined }
    try {
      for (;;) {
        signal.throwIfAborted()
        const place = placeFor(identity)
        if (place) {
          place.busy += 1
          return place
        }
        const leftMs = until - performance.now()
        if (leftMs <= 0) throw allBusy(rules, waitMs)
        one.isWoken = false
        await untilFree(one, leftMs, signal)
      }
    } catch (error) {
      // The place for which it was woken is the next one's.
      if (one.isWoken) wake(waiting[0])
      throw error
    }
  }

  async function use<T>(identity: McpIdentity, how: UseOptions, work: (connection: McpConnection) => Promise<T>): Promise<T> {
    const place = await acquire(identity, how)
    try {
      return await work(place.connection)
    } finally {
      place.busy -= 1
      if (place.busy === 0) wake(waiting[0])
    }
  }

  return {
    use,
    list: (log) =>
      use(shared, { waitMs: rules.listMs, signal: AbortSignal.timeout(2 * rules.listMs) }, (connection) => connection.list(log)),
    async close() {
      const all = [...pooled.values()]
      pooled.clear()
      await Promise.all(all.map(({ connection }) => connection.close()))
    },
  }
}

function allBusy({ name, maxConnections }: McpRules, waitMs: number): ToolError {
  const message =
    `All ${numberText(maxConnections)} connections of this process to the MCP server "${name}" were in use for ${numberText(Math.round(waitMs))} ms, ` +
    'so the call did not begin. Raise maxConnections, or start more executors.'
  return new ToolError(message, { code: 'mcp_busy', happened: false })
}
