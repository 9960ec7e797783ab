// Which webhooks an orchestrator sends to while they are created, changed and removed.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import type { ActiveWebhook, StoredDelivery } from '../../../src/store/webhooks.ts'
import { sendWebhooks, type WebhookNeeds } from '../../../src/worker/orchestrator/webhooks/webhooks.ts'
import { SILENT } from '../../support/deployment.ts'
import { gate, until } from '../../support/until.ts'

it('a webhook whose target does not answer delays no other one when it is removed', async () => {
  const log: string[] = []
  const asked = gate()
  const target = createServer(() => void asked.pass())
  await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve))
  const webhook = (id: string): ActiveWebhook => ({
    id,
    url: `http://127.0.0.1:${(target.address() as AddressInfo).port}/`,
    secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    types: ['run.completed'],
    agent: null,
    idPrefix: null,
    withContent: false,
  })
  let active = [webhook('slow')]
  const at = new Date()
  const rest = { type: 'run.completed', happenedAt: at, facts: {}, queuedAt: at, attempts: 0, dueAt: at, lastError: null, givenUpAt: null }
  const delivery = { webhookId: 'slow', sessionId: 's', seq: 1, agent: 'a', ...rest } as StoredDelivery
  const store = {
    webhooks: {
      active: async () => active,
      queue: async () => undefined,
      due: async (id: string, _: number, busy: string[]) => (id === 'slow' && busy.length === 0 ? [delivery] : []),
      nextDue: async () => 60_000,
      failed: async () => undefined,
    },
    async leaseFeed({ name }: { name: string }) {
      if (name === 'webhook next') log.push('the next one has begun')
      return ['0', '', 0]
    },
    async releaseFeed({ name }: { name: string }) {
      if (name === 'webhook slow') log.push('the slow one has ended')
    },
    lists: { feed: async (_: object, place: unknown) => ({ items: [], next: place, more: false }) },
    watch: () => () => undefined,
  }
  const stop = sendWebhooks({ store, logger: SILENT, holder: 'me', allowsPrivate: true } as unknown as WebhookNeeds)
  onTestFinished(async () => {
    await stop()
    target.closeAllConnections()
    target.close()
  })
  await asked.reached
  active = [webhook('next')]
  await until('both have happened', () => log.length >= 2)
  expect(log.slice(0, 2)).toEqual(['the next one has begun', 'the slow one has ended'])
  asked.open()
})
