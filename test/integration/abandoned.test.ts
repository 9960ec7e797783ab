// An interrupt reaches a tool through `ctx.signal`. A call that ignores it is abandoned; its outcome depends on the tool's effect.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineTool, type ToolContext, type Verdict } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { resultsIn, saidIn, use } from '../support/scenes.ts'
import { type Gate, gate } from '../support/until.ts'

interface Scene {
  tool: string
  entered: Gate
  body: (ctx: ToolContext) => unknown
  verify?: Verdict<unknown>
}

const scenes = new Map<string, Scene & { told?: ReturnType<typeof resultsIn>; entries: number }>()

function laid(sessionId: string) {
  return scenes.get(sessionId) ?? expect.fail(`no scene for ${sessionId}`)
}

const tool = (effect: 'read' | 'idempotent' | 'external') =>
  defineTool({
    name: effect,
    description: effect,
    effect,
    input: z.object({ what: z.string() }),
    execute(_input, ctx) {
      const scene = laid(ctx.sessionId)
      scene.entries += 1
      scene.entered.open()
      return scene.body(ctx)
    },
    ...(effect === 'external' && {
      onUnknown: 'tell_model' as const,
      settleAfter: 0,
      verify: (_input: unknown, ctx: ToolContext) => laid(ctx.sessionId).verify ?? { happened: 'unknown' as const },
    }),
  })

const agent = defineAgent({
  name: 'stoppable',
  instructions: '',
  model: scripted((request): ScriptedAnswer => {
    const scene = laid(request.sessionId)
    if (saidIn(request).length === 1) return [use(scene.tool, 'it')]
    scene.told = resultsIn(request)
    return 'go on'
  }),
  tools: [tool('read'), tool('idempotent'), tool('external')],
}) as Agent

let here: Deployment
beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [agent] })
})
afterAll(() => here?.stop())

/** Interrupts the call once its body has been entered. Returns the events, and the tool results that the model sees in the next run. */
async function interrupted(scene: Omit<Scene, 'entered'>) {
  const session: SessionHandle = here.pawl.session(`i-${randomUUID()}`, { agent: 'stoppable' })
  const entered = gate()
  scenes.set(session.id, { ...scene, entered, entries: 0 })
  const run = await session.send('one')
  await entered.pass()
  await session.interrupt()
  expect(await run.settled({ timeout: 30_000 })).toMatchObject({ status: 'interrupted', run: 1 })
  expect(await (await session.send('two')).result({ timeout: 30_000 })).toMatchObject({ text: 'go on', run: 2 })
  const { told = [], entries } = laid(session.id)
  expect(entries).toBe(1)
  return { events: await eventsOf(session), told }
}

const never = (): Promise<never> => new Promise(() => undefined)
const heeding = (ctx: ToolContext): Promise<never> =>
  new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)))

describe.concurrent.each([
  ['heeds its signal', heeding],
  ['heeds nothing', never],
] as const)('an interrupted tool that %s', (_, body) => {
  it('an interrupted read is abandoned without a result', async () => {
    const { events, told } = await interrupted({ tool: 'read', body })
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'interrupted', message: expect.stringContaining('did not take effect') }])
    expect(told).toMatchObject([{ isError: true }])
  })

  it('an interrupted idempotent tool may have taken effect, and the model is told so', async () => {
    const { events, told } = await interrupted({ tool: 'idempotent', body })
    expect(ofType(events, 'tool_failed')).toMatchObject([{ code: 'interrupted' }])
    expect(told).toMatchObject([{ isError: true, content: expect.stringContaining('may have taken effect') }])
  })

  it('an interrupted external tool counts as completed if verify says so', async () => {
    const { events, told } = await interrupted({ tool: 'external', body, verify: { happened: true, result: 'found' } })
    expect(ofType(events, 'tool_completed')).toMatchObject([{ value: 'found' }])
    expect(told).toMatchObject([{ isError: false, content: 'found' }])
  })

  it('an interrupted external tool has an unknown outcome if verify cannot tell', async () => {
    const { events, told } = await interrupted({ tool: 'external', body })
    expect(ofType(events, 'tool_unknown')).toHaveLength(1)
    expect(told).toMatchObject([{ isError: true, content: expect.stringContaining('unknown') }])
  })
})

it('a tool that completes despite an interrupt counts as completed', async () => {
  const { events, told } = await interrupted({
    tool: 'external',
    body: (ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('just done'))),
  })
  expect(ofType(events, 'tool_completed')).toMatchObject([{ value: 'just done' }])
  expect(told).toMatchObject([{ isError: false, content: 'just done' }])
})
