// A process dies while an AI SDK model answers, after any chunk of the stream: another process repeats the call, and what it then sends to
// the provider contains nothing of the first answer.
import { randomUUID } from 'node:crypto'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { streamed, type WireAnswerSpec, WIRES } from '../support/provider-wires.ts'
import { seed, variants } from '../support/sizes.ts'
import { type WireServer, wireServer } from '../support/wire-server.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let fixtures: Compiled
let workers: Supervised
let server: WireServer

beforeAll(async () => {
  server = await wireServer()
  process.env.PROVIDERS_URL = server.url
  fixtures = await compile(['test/crash/fixtures/providers.ts'])
  rig = await startRig()
  workers = await rig.supervise({ module: fixtures.path('providers'), processes: 2 })
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  await server?.close()
})

/** Two turns: thinking, text and a call in the first one. */
const CALLING: WireAnswerSpec = {
  thinking: { text: 'An order it is.', signature: 'c2lnbmVk' },
  text: ['Look', 'ing.'],
  calls: [{ id: 'call_1', name: 'find_order', json: ['{"id":', '"A7"}'] }],
  stop: 'stop',
  usage: { input: 50, output: 10 },
}
const ANSWERING: WireAnswerSpec = { text: ['On its ', 'way.'], stop: 'stop', usage: { input: 70, output: 5 } }
const DEAD: WireAnswerSpec = { ...CALLING, thinking: { text: 'Dead end.', signature: 'ZGVhZA==' }, text: ['A dead', ' answer.'] }

/** Where a process dies: after no chunk, some of the thinking, half of the answer, and all but the end. */
const PLACES = [
  { agent: 'openai', wire: WIRES.find(({ name }) => name.includes('Responses')) },
  { agent: 'google', wire: WIRES.find(({ name }) => name.includes('Google')) },
].flatMap(({ agent, wire = expect.fail(`no wire of ${agent}`) }) => {
  const { length } = wire.chunks(DEAD)
  return [...new Set([0, 2, Math.ceil(length / 2), length - 1])].map((count) => ({ agent, wire, count }))
})

describe('when a process dies while a model answers', () => {
  const title = `$agent, after $count chunks: the call is repeated as if it had never been made (seed ${seed}, again with PAWL_SEED)`

  it.each(variants(PLACES, 3))(title, async ({ agent, wire, count }) => {
    const chunks = (spec: WireAnswerSpec) => wire.chunks(spec)
    await workers.serving()
    server.reset()
    const kill = () => void process.kill(Number(server.received[0]?.headers['x-pid']), 'SIGKILL')
    server.answer(streamed(chunks(DEAD).slice(0, count), kill), streamed(chunks(CALLING)), streamed(chunks(ANSWERING)))
    const session = rig.pawl.session(`providers-${randomUUID()}`, { agent }) as SessionHandle
    const run = await session.send('where is A7?')
    expect(await run.result()).toMatchObject({ text: 'On its way.', usage: { input_tokens: 120, output_tokens: 15 } })

    const [first, again, last] = server.received
    expect(server.received).toHaveLength(3)
    expect(again?.body).toEqual(first?.body)
    const sent = JSON.stringify(last?.body)
    expect(sent).toContain('c2lnbmVk')
    expect(sent).toContain('A7 is on its way')
    expect(sent).not.toMatch(/ZGVhZA|dead/i)
    expect((await rig.errors(session.id, 1)).map(({ attempt, class: of }) => [attempt, of])).toEqual([[1, 'WorkerDied']])
    expect(ofType(await eventsOf(session), 'model_completed').map(({ attempt }) => attempt)).toEqual([2, 1])
  })
})
