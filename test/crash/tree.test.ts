// A tree of agents, killed at every boundary of each of its sessions (usually, at one of each kind): the same result as undisturbed, each
// effect once, one approval, and the root's limit holds.
import { dirname, join } from 'node:path'
import type { CrashTestOptions } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Boundary } from '../../src/testing/crash/boundaries.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type Kit, openKit } from './support/kit.ts'
import { kindOf, someBoundaries } from './support/some-boundaries.ts'

let kit: Kit
beforeAll(async () => {
  kit = await openKit()
})
afterAll(() => kit?.close())

type Step = Extract<CrashTestOptions['script'][number], (...args: never[]) => unknown>

const FOUND_MS = 120_000
/** Spent by the root's session when the conversation ended, and the requests for approval. */
let seen: { usd: number; approvals: number }[] = []

const approveBelow = async ({ pawl, session }: Parameters<Step>[0]): Promise<string> => {
  const clerk = await until(
    'the clerk asks for approval',
    async () => {
      const { items } = await pawl.pending.list({ idPrefix: `${session.id}/` })
      return items[0]
    },
    FOUND_MS,
  )
  const { sessionId, callId, digest } = clerk
  await until(
    'it is approved',
    async () => {
      await pawl
        .session(sessionId)
        .approve(callId, { digest: digest ?? '', by: 'ann' })
        .catch((error: { code?: string }) => {
          if (error.code !== 'not_waiting' && error.code !== 'call_not_found') throw error
        })
      return true
    },
    FOUND_MS,
  )
  return sessionId
}

/** Notes what the conversation has cost, and how often a person was asked. */
async function note({ pawl, session }: Parameters<Step>[0], sessionId: string): Promise<void> {
  const approvals: string[] = []
  for await (const event of pawl.session(sessionId).events()) if (event.type === 'approval_requested') approvals.push(event.callId)
  const state = await until('the state', async () => (await session.state()).current === null && session.state(), FOUND_MS)
  seen.push({ usd: state.spend?.usd ?? 0, approvals: approvals.length })
}

const pay: Step = async (conversation) => {
  const run = await conversation.send('pay')
  const clerk = await approveBelow(conversation)
  await run.result({ timeout: FOUND_MS })
  await note(conversation, clerk)
}

/** The first run ends before the clerk transfers, and the clerk's answer opens the second. */
const payInBackground: Step = async (conversation) => {
  const { session, send } = conversation
  await (await send('pay')).result({ timeout: FOUND_MS })
  const clerk = await approveBelow(conversation)
  const answer = await until(
    'the answer has arrived',
    async () => {
      for await (const event of session.events()) if (event.type === 'message_received' && event.answers) return event.messageId
      return undefined
    },
    FOUND_MS,
  )
  await session.run(answer).result({ timeout: FOUND_MS })
  await note(conversation, clerk)
}

/** One boundary of each kind in each session of the tree. */
function someOfEach(kinds = ['model before', 'model during', 'model after', 'tool during', 'tool after']): (boundary: Boundary) => boolean {
  const byDepth = new Map<string, (boundary: Boundary) => boolean>()
  return (boundary) => {
    const [depth = ''] = /^(?:child\d+>)?/.exec(boundary.id) ?? []
    const chooses = byDepth.get(depth) ?? someBoundaries(seed + depth.length, kinds)
    byDepth.set(depth, chooses)
    return chooses(boundary)
  }
}

it(`a tree of agents passes the crash test at its boundaries (seed ${seed}, again with PAWL_SEED)`, async () => {
  seen = []
  const module = join(dirname(kit.module), 'tree.mjs')
  const result = await kit.test('boss', '', { module, script: [pay], timeout: '2m', ...size({ only: someOfEach() }, {}) })
  expect(result.ok, result.table).toBe(true)
  const effects = result.baseline.effects as { what: string; account: string }[]
  expect(effects.map(({ what, account }) => `${what}:${account}`)).toEqual(['charge:alice', 'transfer:bob', 'charge:carol'])
  const depths = new Set(result.boundaries.map(({ boundary: { id } }) => /^child\d+/.exec(id)?.[0] ?? 'root'))
  expect([...depths].sort()).toEqual(['child1', 'child2', 'root'])
  expect(result.boundaries.map(({ boundary }) => kindOf(boundary))).toContain('tool during')
  expect(seen.length).toBeGreaterThan(result.boundaries.length)
  // An answer that was lost with its worker costs a cent more. Nothing that was asked of a person is asked again.
  expect(
    seen.every(({ usd, approvals }) => usd >= 0.08 - 1e-9 && usd <= 1 && approvals === 1),
    JSON.stringify(seen),
  ).toBe(true)
}, 600_000)

it(`a tree with an agent in the background passes the crash test at its boundaries (seed ${seed})`, async () => {
  seen = []
  const module = join(dirname(kit.module), 'tree.mjs')
  const only = someOfEach(['model during', 'tool after'])
  const result = await kit.test('patron', '', { module, script: [payInBackground], timeout: '2m', ...size({ only }, {}) })
  expect(result.ok, result.table).toBe(true)
  const effects = result.baseline.effects as { what: string; account: string }[]
  expect(effects.map(({ what, account }) => `${what}:${account}`)).toEqual(['transfer:bob', 'charge:carol'])
  expect(seen.length).toBeGreaterThan(result.boundaries.length)
  expect(
    seen.every(({ usd, approvals }) => usd >= 0.06 - 1e-9 && usd <= 1 && approvals === 1),
    JSON.stringify(seen),
  ).toBe(true)
}, 600_000)
