// Reads metrics as Prometheus does.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'

/** The metrics of an endpoint at one moment. */
export interface Scraped {
  text: string
  /** The sum of the samples with this name whose labels include these; undefined if there is none. */
  sum(name: string, labels?: Record<string, string>): number | undefined
}

/** A port that is free at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Reads the endpoints; the sums are over all of them. */
export async function scrape(...ports: readonly number[]): Promise<Scraped> {
  const texts = await Promise.all(ports.map(async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()))
  const text = texts.join('\n')
  return {
    text,
    sum(name, labels = {}) {
      const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`)
      const found = text
        .split('\n')
        .filter((line) => line.startsWith(`${name}{`) && wanted.every((label) => line.includes(label)))
        .map((line) => Number(line.slice(line.lastIndexOf('}') + 1).trim()))
      return found.length === 0 ? undefined : found.reduce((sum, value) => sum + value, 0)
    },
  }
}
