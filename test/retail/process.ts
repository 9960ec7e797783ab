// Starts the outside process for a test, and stops it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** A running outside process. */
export interface RetailProcess {
  url: string
  /** Calls back with the tool's name when a request for one arrives, before it is handled. */
  onRequest(listener: (tool: string) => void): void
  stop(): Promise<void>
}

/** Starts the outside process on a free port. Default `latencyMs` 30, `seed` 1. */
export async function startRetail({ latencyMs = 30, seed = 1 } = {}): Promise<RetailProcess> {
  const child = spawn(process.execPath, ['--import', 'tsx', fileURLToPath(new URL('server.ts', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, RETAIL_LATENCY_MS: String(latencyMs), RETAIL_SEED: String(seed) },
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })
  const ready = once(lines, 'line')
  const first = await Promise.race([ready, exited.then(([code]) => Promise.reject(new Error(`The retail server exited with ${code}.`)))])
  const { port } = JSON.parse(String(first[0])) as { port: number }
  return {
    url: `http://127.0.0.1:${port}`,
    onRequest: (listener) => void child.on('message', (message) => listener((message as { tool: string }).tool)),
    async stop() {
      child.kill('SIGTERM')
      await exited
    },
  }
}
