// A bank outside the workers, as the world of a crash test: it counts what it did.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { CrashWorld } from 'pawl/testing'

interface Payment {
  account: string
  cents: number
}

/** A bank at `BANK_URL`. It honours the keys of charges, but not those of transfers, which can be looked up by key. */
export function bank(): CrashWorld {
  let done: (Payment & { what: 'charge' | 'transfer'; number: string })[] = []
  let charges = new Map<string, string>()
  let transfers = new Map<string, string>()
  let notes = new Set<string>()
  let server: Server | undefined

  function pay(what: 'charge' | 'transfer', { account, cents }: Payment): string {
    const number = `${what === 'charge' ? 'C' : 'T'}-${done.length + 1}`
    done.push({ what, account, cents, number })
    return number
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, kind, name = ''] = (request.url ?? '').split('/')
    const key = String(request.headers['idempotency-key'])
    const body = await text(request)
    const found = (what: string | undefined): void => void response.writeHead(what === undefined ? 404 : 200).end(what)
    switch (`${request.method} ${kind}`) {
      case 'POST charges':
        charges.set(key, charges.get(key) ?? pay('charge', JSON.parse(body) as Payment))
        return found(charges.get(key))
      case 'POST transfers':
        transfers.set(key, pay('transfer', JSON.parse(body) as Payment))
        return found(transfers.get(key))
      case 'GET transfers':
        return found(transfers.get(name))
      case 'DELETE transfers': {
        const taken = transfers.get(name)
        transfers.delete(name)
        return found(taken)
      }
      case 'GET balances':
        return found(String(balances()[name] ?? 0))
      case 'PUT notes':
        notes.add(name)
        return found('noted')
      case 'GET notes':
        return found(notes.has(name) ? 'noted' : undefined)
      default:
        return found(undefined)
    }
  }

  function balances(): Record<string, number> {
    const sums: Record<string, number> = {}
    for (const { account, cents } of done) sums[account] = (sums[account] ?? 0) + cents
    return sums
  }

  return {
    async start() {
      const listening = createServer((request, response) => void answer(request, response))
      server = listening
      await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
      return { BANK_URL: `http://127.0.0.1:${(listening.address() as AddressInfo).port}` }
    },
    reset() {
      done = []
      charges = new Map()
      transfers = new Map()
      notes = new Set()
    },
    snapshot: () => balances(),
    effects: () => done.map((payment) => ({ ...payment })),
    async stop() {
      server?.closeAllConnections()
      await new Promise((resolve) => server?.close(resolve))
    },
  }
}
