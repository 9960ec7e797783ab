// A process dies while tools run at the provider: between any two blocks of an answer, between the pieces of an answer that pauses, and after
// the answer. The call is made again; what is sent afterwards has no block of the answer that was cut off.
import { randomBytes, randomUUID } from 'node:crypto'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { type MessagesApi, messagesApi } from '../support/messages-api.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let fixtures: Compiled
let workers: Supervised
let api: MessagesApi

beforeAll(async () => {
  api = await messagesApi()
  process.env.MESSAGES_URL = api.url
  fixtures = await compile(['test/crash/fixtures/provider-tools.ts'])
  rig = await startRig()
  workers = await rig.supervise({ module: fixtures.path('provider-tools'), processes: 2 })
})
beforeEach(async () => {
  api.reset()
  await workers.serving()
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  await api?.close()
})

const PAGE = { url: 'https://example.com/rain', title: 'Rain in Oslo' }
const text = (words: string) => ({ type: 'text', text: words })

/** A search and its result, of about this many bytes. */
function search(bytes = 200) {
  const id = `srvtoolu_${randomBytes(6).toString('hex')}`
  return [
    { type: 'server_tool_use', id, name: 'web_search', input: { query: 'rain' } },
    {
      type: 'web_search_tool_result',
      tool_use_id: id,
      content: [{ type: 'web_search_result', ...PAGE, encrypted_content: randomBytes(bytes).toString('base64'), page_age: null }],
    },
  ] as const
}

const open = () => rig.pawl.session(`provider-tools-${randomUUID()}`, { agent: 'searching' }) as SessionHandle
/** Kills the process that sent the request. */
const kill = (at: number) => void process.kill(Number(api.requests[at]?.prefix), 'SIGKILL')
const withoutBreakpoint = (block: object) =>
  JSON.parse(JSON.stringify(block, (name, value: unknown) => (name === 'cache_control' ? undefined : value)))
const blocksSent = () =>
  (api.requests.at(-1)?.messages ?? []).filter(({ role }) => role === 'assistant').flatMap(({ content }) => content.map(withoutBreakpoint))

describe('when a process dies while a tool runs at the provider', () => {
  it.each([1, 2, 3])(
    'a model call whose process is killed after block %i of the answer is made again, without any of the first answer',
    async (place) => {
      const dead = search()
      const blocks = [text('I will look.'), ...search(), text('It rains.')]
      api.answer({ blocks: [text('A dead end.'), ...dead, text('Dead.')], before: (index) => index === place && kill(0) }, { blocks })
      const session = open()
      expect((await (await session.send('look')).result()).text).toBe('I will look.It rains.')
      await (await session.send('thanks')).result()
      expect(api.requests.flatMap(({ problems }) => problems)).toEqual([])
      expect(JSON.stringify(blocksSent())).toBe(JSON.stringify(blocks))
      expect(ofType(await eventsOf(session), 'model_attempt_failed').map(({ error }) => error.class)).toEqual(['WorkerDied'])
    },
  )

  it('a process killed between two pieces of an answer that pauses loses only the second piece, which is requested again', async () => {
    const [call, result] = search()
    const second = { blocks: [result, text('It rains.')] }
    api.answer(
      { blocks: [text('I will look.'), call], stop: 'pause_turn' },
      { ...second, before: (index) => index === 1 && kill(1) },
      second,
    )
    const session = open()
    expect((await (await session.send('look')).result()).text).toBe('It rains.')
    expect(api.requests).toHaveLength(3)
    expect(JSON.stringify(api.requests[2]?.messages)).toBe(JSON.stringify(api.requests[1]?.messages))
    await (await session.send('thanks')).result()
    expect(api.requests.flatMap(({ problems }) => problems)).toEqual([])
    expect(blocksSent()).toEqual([text('I will look.'), call, result, text('It rains.')])
  })

  it('large blocks that were stored before a process died are used once', async () => {
    const blocks = [...search(300_000), { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }]
    api.answer({ blocks, stop: 'tool_use' }, { blocks: [text('Seen.')], before: () => kill(1) }, { blocks: [text('Seen.')] })
    const session = open()
    expect((await (await session.send('look')).result()).text).toBe('Seen.')
    expect(api.requests).toHaveLength(3)
    expect(api.requests.flatMap(({ problems }) => problems)).toEqual([])
    expect(JSON.stringify(blocksSent().slice(0, 2))).toBe(JSON.stringify(blocks.slice(0, 2)))
  })

  it('an orchestrator that dies between two pieces of an answer leaves the first one as it is', async () => {
    const [call, result] = search()
    const second = { blocks: [result, text('It rains.')] }
    const killOrchestrator = () => void process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
    let isKilled = false
    api.answer(
      { blocks: [call], stop: 'pause_turn' },
      {
        ...second,
        before: (index) => {
          if (index !== 1 || isKilled) return
          isKilled = true
          killOrchestrator()
        },
      },
      second,
      second,
    )
    const session = open()
    expect((await (await session.send('look')).result()).text).toBe('It rains.')
    expect(api.requests.flatMap(({ problems }) => problems)).toEqual([])
    expect(ofType(await eventsOf(session), 'model_completed').map(({ stopReason }) => stopReason)).toEqual(['pause_turn', 'end_turn'])
  })
})
