// How the agent and the tests talk to the outside process.
import type { JsonObject } from '../../src/session/json.ts'
import type { WorldReport } from './ledger.ts'

/** The interface of the outside process. */
export interface RetailClient {
  /** Runs a tool; an error text is an ordinary result. @throws RetailError for any answer other than 200. */
  execute(world: string, tool: string, args: JsonObject, options: { key?: string; signal?: AbortSignal }): Promise<string>
  /** The result of what was executed with this reference, or null if nothing was. @throws RetailError. */
  lookUp(world: string, tool: string, key: string, options: { signal?: AbortSignal }): Promise<string | null>
  /** What became of a world. @throws RetailError. */
  report(world: string): Promise<WorldReport>
  /** Gives the world a fresh database and forgets what was executed in it. @throws RetailError. */
  reset(world: string): Promise<void>
}

/** The outside process answered with an unexpected status. */
export class RetailError extends Error {
  override readonly name = 'RetailError'
  readonly status: number

  constructor(status: number, message: string) {
    super(`The retail server answered ${status}: ${message}`)
    this.status = status
  }
}

/** A client of the outside process at `url`. */
export function connectRetail(url: string): RetailClient {
  const path = (...parts: string[]) => `${url}/worlds/${parts.map(encodeURIComponent).join('/')}`
  return {
    async execute(world, tool, args, { key, signal }) {
      const headers = { 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) }
      return textOf(
        await fetch(path(world, 'tools', tool), { method: 'POST', headers, body: JSON.stringify(args), ...(signal && { signal }) }),
      )
    },
    async lookUp(world, tool, key, { signal }) {
      const response = await fetch(path(world, 'tools', tool, key), { ...(signal && { signal }) })
      if (response.status !== 404) return textOf(response)
      await response.body?.cancel()
      return null
    },
    async report(world) {
      return JSON.parse(await textOf(await fetch(path(world)))) as WorldReport
    },
    async reset(world) {
      await textOf(await fetch(path(world), { method: 'DELETE' }))
    },
  }
}

async function textOf(response: Response): Promise<string> {
  const text = await response.text()
  if (!response.ok) throw new RetailError(response.status, text)
  return text
}
