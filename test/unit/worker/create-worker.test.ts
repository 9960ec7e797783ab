// A worker in the caller's process that cannot start leaves nothing running.
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { createWorker } from '../../../src/worker/one-process/create-worker.ts'
import { scripted } from '../../../src/testing/scripted.ts'

/** A port on which nothing listens. */
async function deadPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

it('createWorker closes its store and disposes of its services if Temporal does not answer', async () => {
  const lines: string[] = []
  const log = (_fields: unknown, message?: string): void => void lines.push(message ?? '')
  let disposals = 0
  const [temporal, postgres] = [await deadPort(), await deadPort()]
  await expect(
    createWorker({
      agents: [defineAgent({ name: 'a', model: scripted(() => 'ok'), instructions: 'Answer.' })],
      services: { dispose: () => void disposals++ },
      temporal: { address: `127.0.0.1:${temporal}` },
      postgres: `postgres://127.0.0.1:${postgres}/none`,
      logger: { debug: log, info: log, warn: log, error: log },
      healAfterMs: false,
    }),
  ).rejects.toMatchObject({ code: 'no_temporal' })
  expect(disposals).toBe(1)
  const before = [...lines]
  await sleep(1_500)
  expect(lines).toEqual(before)
})
