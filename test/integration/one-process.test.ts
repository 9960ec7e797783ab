// Workers in the user's own process: one thread sends the heartbeats for all of them.
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { expect, it } from 'vitest'

const MODULE = fileURLToPath(new URL('fixtures/one-process/two-workers.mjs', import.meta.url))

it('a tool that blocks the event loop past the heartbeat timeout needs one attempt, even after another worker has ended', async () => {
  const queue = randomUUID()
  const taskQueue = `${queue}-second`
  const workers = fork(MODULE, [], { env: { ...process.env, FIRST_QUEUE: `${queue}-first`, SECOND_QUEUE: taskQueue } })
  const pawl = await Pawl.connect({ taskQueue })
  try {
    await once(workers, 'message')
    const run = await pawl.session(randomUUID(), { agent: 'blocker' }).send('go')
    expect((await run.result({ timeout: '60s' })).text).toContain('attempt 1 has ended')
  } finally {
    await pawl.close()
    workers.send('stop')
    expect(await once(workers, 'exit')).toEqual([0, null])
  }
})
