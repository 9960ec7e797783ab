// A worker whose flushes arrive late: what a client has seen of a session does not disappear from what it reads next.
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { stage } from '../support/scenes.ts'
import { type SlowProxy, startSlowProxy } from '../support/slow-proxy.ts'
import { until } from '../support/until.ts'

const player = stage()
let proxy: SlowProxy
let here: Deployment

beforeAll(async () => {
  here = await deploy()
  proxy = await startSlowProxy(inject('stack').databaseUrl)
  await here.startWorker({ agents: [player.agent], postgres: proxy.url })
})
afterAll(async () => {
  await here?.stop()
  await proxy?.close()
})

it.each([
  ['a moment behind', 100],
  ['so far behind that the workflow is asked', 3_000],
])('a session that is seen to be idle has its answer among its messages, with the store %s', async (_behind, delayMs) => {
  const { session } = player.play(here.pawl, { model: ({ messages }) => `answer ${messages.length}` })
  await (await session.send('first')).result()
  const { seq } = await session.state()
  proxy.delayMs = delayMs
  try {
    await session.send('second')
    await until('the second run has ended', async () => {
      const state = await session.state()
      return state.status === 'idle' && state.seq > seq
    })
    const messages = await session.messages()
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant'])
    expect(messages.at(-1)).toMatchObject({ content: [{ text: 'answer 3' }] })
  } finally {
    proxy.delayMs = 0
  }
})
