// An MCP server whose tools report what they do to the ledger, and whose first answer to a call goes wrong as the call's argument says.
import { type CallToolResult, Server } from '@modelcontextprotocol/server'
import type { Mark, Stage } from '../../crash/support/ledger.ts'

/** What goes wrong before the effect. `refused`: an error of the server; `cut before`: the connection ends. */
export const FAULTS_BEFORE = ['refused', 'cut before'] as const

/**
 * What goes wrong after the effect. `silent`: no answer; `late`: the effect and the answer come when the call was given up and its outcome is asked for; `error`: an error
 * of the server; `error result`: the tool says that it failed; `cut`: the connection ends; `garbage`: an answer that cannot be read; `huge`:
 * one that is larger than allowed.
 */
export const FAULTS_AFTER = ['silent', 'late', 'error', 'error result', 'cut', 'garbage', 'huge'] as const

export type Fault = (typeof FAULTS_BEFORE)[number] | (typeof FAULTS_AFTER)[number]

/** The server's way to the outside world. */
export interface FaultyWorld {
  /** Begins the texts of results, as it begins the names of the tools. */
  name: string
  report(stage: Stage, details: Omit<Mark, 'stage' | 'pid' | 'at'>): Promise<{ applied: boolean; enteredBy: number[] }>
  /** Carries out a fault that depends on the transport. Does not return if the request gets no answer. */
  break(fault: 'refused' | 'error' | 'cut' | 'garbage'): Promise<never>
}

const KEY_META = 'dev.pawl/idempotency-key'
/** More than `maxResultBytes` of the agent. */
const HUGE = 2_000_000

const text = (said: string): CallToolResult => ({ content: [{ type: 'text', text: said }] })
const never = (): Promise<never> => new Promise(() => undefined)

/** A server for one connection. */
export function faultyServer(world: FaultyWorld): Server {
  const server = new Server({ name: world.name, version: '1' }, { capabilities: { tools: {} } })
  const strings = (...names: string[]) => ({ type: 'object' as const, properties: Object.fromEntries(names.map((name) => [name, STRING])) })
  server.setRequestHandler('tools/list', () => ({
    tools: [
      ...['look', 'put', 'charge'].map((name) => ({ name, inputSchema: { ...strings('name', 'how'), required: ['name'] } })),
      { name: 'was_charged', inputSchema: strings('key') },
    ],
  }))
  server.setRequestHandler('tools/call', async ({ params: { name: what, arguments: given = {}, _meta = {} } }) => {
    const { name = '', how, key: asked } = given as { name?: string; how?: Fault; key?: string }
    if (what === 'was_charged') {
      const { applied } = await world.report('verify', { session: '', what: 'charge', callId: '', attempt: 1, key: asked ?? '' })
      return { content: [], structuredContent: { applied } }
    }
    const key = String(_meta[KEY_META] ?? `${what} ${name}`)
    const details = { session: name, what, callId: '', attempt: 1, key }
    const { enteredBy, applied } = await world.report('entered', { ...details, note: { how } })
    const fault = enteredBy.length === 1 ? how : undefined
    if (fault === 'refused') return world.break('refused')
    if (fault === 'cut before') return world.break('cut')
    if (fault === 'late') await world.report('late', details)
    // As a service that takes keys: it does once what it is asked for twice.
    if (what === 'charge' || !applied) await world.report('applied', details)
    switch (fault) {
      case 'silent':
        return never()
      case 'error':
      case 'cut':
      case 'garbage':
        return world.break(fault)
      case 'error result':
        return { ...text('The connection to the bank was lost.'), isError: true }
      case 'huge':
        return text('x'.repeat(HUGE))
      default:
        return text(`${world.name}__${what} ${name}`)
    }
  })
  return server
}

const STRING = { type: 'string' as const }
