// The snippets in docs/approvals.md are the ones that are compiled and run here.
import { readFile } from 'node:fs/promises'
import { type Agent, defineAgent } from 'pawl'
import type { RunHandle, SessionHandle } from 'pawl/client'
import { createHandler } from 'pawl/service'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  address,
  answer,
  courier,
  decide,
  decideAll,
  decideAs,
  deny,
  edit,
  grant,
  inbox,
  look,
  refund,
  remember,
  resolve,
  revoke,
  settleGroup,
} from '../guides/approvals.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { pendingOf } from '../support/approvals.ts'
import { answersIn, resultsIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { webClient } from '../support/web.ts'

const fromRoot = (path: string) => new URL(`../../${path}`, import.meta.url)
const TIMEOUT = { timeout: 60_000 }

let here: Deployment
const refunds: unknown[] = []
const told: unknown[] = []
const log = vi.spyOn(console, 'log').mockImplementation((...said) => void told.push(said))

beforeAll(async () => {
  here = await deploy()
  const use = (name: string, input: object) => [{ type: 'tool_use' as const, id: 'x', name, input: input as { orderId: string } }]
  const inputs: Record<string, object> = {
    refund_order: { orderId: 'A7', cents: 20_000 },
    grant_credit: { customer: 'c-1', cents: 50_000 },
  }
  const agent = defineAgent({
    name: 'support',
    instructions: 'Help.',
    model: scripted((request) => {
      if (answersIn(request) > 0) return JSON.stringify(resultsIn(request).map(({ content }) => content))
      const [tool = ''] = request.messages.flatMap(({ content }) => (typeof content === 'string' ? [content] : []))
      return use(tool, inputs[tool] ?? { orderId: 'A7' })
    }),
    tools: [refund, address, courier, grant],
  }) as Agent
  const payments = { refund: (input: unknown) => refunds.push(input) && { id: 'r-1' } }
  const couriers = {
    book() {
      throw new Error('the line broke')
    },
    find: () => undefined,
  }
  await here.startWorker({ agents: [agent], services: { payments, couriers, credits: { grant: () => 'granted' } } })
})
afterAll(async () => {
  log.mockRestore()
  await here?.stop()
})

async function start(tool: string): Promise<{ session: SessionHandle; run: RunHandle; digest: string }> {
  const session = here.pawl.session(undefined, { agent: 'support', tags: ['vip'] }) as SessionHandle
  const run = await session.send(tool)
  const [call] = await pendingOf(run)
  return { session, run, digest: call?.digest ?? '' }
}

describe('the guide to approvals', () => {
  it('the guide to approvals shows its snippets exactly as they run here', async () => {
    const source = await readFile(fromRoot('test/guides/approvals.ts'), 'utf8')
    const guide = await readFile(fromRoot('docs/approvals.md'), 'utf8')
    const regions = [...source.matchAll(/^( *)\/\/ #region (\w+)\n([\s\S]*?)^ *\/\/ #endregion/gm)]
    expect(regions).toHaveLength(guide.match(/^```ts$/gm)?.length ?? 0)
    for (const [, indent = '', , body = ''] of regions) {
      const snippet = body
        .trimEnd()
        .split('\n')
        .map((line) => line.slice(indent.length))
        .join('\n')
      expect(guide).toContain(`\`\`\`ts\n${snippet}\n\`\`\``)
    }
  })

  it('the guide to approvals shows how a call is approved, denied and edited', async () => {
    const first = await start('refund_order')
    expect(await look(first.run)).toMatchObject({ pending: [{ reason: `more than 100.00 for ${first.session.id}` }] })
    await until('the inbox has it', async () => {
      told.length = 0
      await inbox(here.pawl)
      return JSON.stringify(told).includes(first.session.id)
    })
    await decide(first.session, 't_1_1_0', first.digest)
    expect((await first.run.result(TIMEOUT)).text).toContain('r-1')
    const second = await start('refund_order')
    await deny(second.session, 't_1_1_0', second.digest)
    expect((await second.run.result(TIMEOUT)).text).toContain('offer a voucher')
    const third = await start('refund_order')
    await edit(third.session, 't_1_1_0', third.digest)
    await third.run.result(TIMEOUT)
    expect(refunds).toEqual([
      { orderId: 'A7', cents: 20_000 },
      { orderId: 'A7', cents: 9_900 },
    ])
  })

  it('the guide to approvals shows how a person with a role decides', async () => {
    const { session, run, digest } = await start('grant_credit')
    await decideAs(session, 't_1_1_0', digest)
    expect((await run.result(TIMEOUT)).text).toContain('granted')
  })

  it('the guide to approvals shows how a person gives, lists and revokes a standing approval', async () => {
    const { session, run, digest } = await start('refund_order')
    const rule = await remember(session, 't_1_1_0', digest)
    await run.result(TIMEOUT)
    await until('it is listed', async () => (await here.pawl.approvals.rules({ agent: 'support' })).some(({ id }) => id === rule))
    await revoke(here.pawl, rule)
    await until('it is gone', async () => !(await here.pawl.approvals.rules({ agent: 'support' })).some(({ id }) => id === rule))
    refunds.length = 2
  })

  it('the guide to approvals shows how one decision settles the calls of a group', async () => {
    const context = { customer: 'Ann' }
    const open = (): SessionHandle => here.pawl.session(undefined, { agent: 'support', context }) as SessionHandle
    const [one, other] = [open(), open()]
    const runs = [await one.send('refund_order'), await other.send('refund_order')]
    const [digest] = (await Promise.all(runs.map(pendingOf))).map(([call]) => call?.digest ?? '')
    const listed = async (): Promise<string[]> => {
      const { items } = await here.pawl.pending.list({ kind: 'approval' })
      return items.map(({ sessionId }) => sessionId)
    }
    await until('both are listed', async () => {
      const ids = await listed()
      return ids.includes(one.id) && ids.includes(other.id)
    })
    const groups = await settleGroup(here.pawl, one, 't_1_1_0', digest ?? '')
    expect([...groups.values()].map((calls) => calls.toSorted())).toContainEqual([`${one.id} t_1_1_0`, `${other.id} t_1_1_0`].toSorted())
    for (const run of runs) expect((await run.result(TIMEOUT)).text).toContain('r-1')
    refunds.length = 2
  })

  it('the guide to approvals shows how a call is answered and resolved', async () => {
    const asked = await start('ask_for_address')
    await answer(asked.session, 't_1_1_0')
    expect((await asked.run.result(TIMEOUT)).text).toContain('Springfield')
    const lost = await start('book_courier')
    await resolve(lost.session, 't_1_1_0')
    expect((await lost.run.result(TIMEOUT)).text).toContain('B-17')
  })

  it('the guide to approvals shows how the kind of a call decides', async () => {
    for (const tool of ['refund_order', 'ask_for_address', 'book_courier']) {
      const { session, run } = await start(tool)
      await decideAll(session, run)
      expect((await run.result(TIMEOUT)).text).toContain({ refund_order: 'r-1', ask_for_address: 'Springfield' }[tool] ?? 'not known')
    }
  })

  it('the guide to approvals shows how to decide over HTTP', async () => {
    const guide = await readFile(fromRoot('docs/approvals.md'), 'utf8')
    const requests = [...guide.matchAll(/^curl "\$AT\/\w+\/(\w+)" "\$\{AS\[@\]\}" -d '(.*)'/gm)].map(([, what = '', body = '']) => ({
      what,
      body,
    }))
    expect(requests.map(({ what }) => what)).toEqual(['approve', 'approve', 'deny', 'answer', 'resolve', 'resolve'])
    const handler = createHandler({
      pawl: here.pawl,
      logger: SILENT,
      authorize: () => ({ identity: 'ann', scopes: ['read', 'send', 'approve', 'operate'] }),
    })
    const tools: Record<string, string> = { answer: 'ask_for_address', resolve: 'book_courier' }
    for (const { what, body } of requests) {
      const { session, digest } = await start(tools[what] ?? 'refund_order')
      const path = `/v1/sessions/${session.id}/calls/t_1_1_0/${what}`
      const { status } = await webClient(handler, '').post(path, body.replace('7c4f…', digest))
      expect({ body, status }).toEqual({ body, status: what === 'approve' ? 200 : 204 })
    }
  })
})
