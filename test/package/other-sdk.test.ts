// Beside another version of Temporal's SDK, which refuses the prebuilt workflow bundle, a worker bundles once at its start.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { answerOf, type Consumer, makeConsumer } from './consumers.ts'

/** The SDK's minor version that pawl is built with has only one release; a release of the minor version before shows the same. */
const OTHER_SDK = '1.23.0'
const PACKAGES = ['activity', 'client', 'common', 'envconfig', 'nexus', 'proto', 'worker', 'workflow']

const { databaseUrl, namespace, temporalAddress } = inject('stack')

let consumer: Consumer
beforeAll(async () => {
  consumer = await makeConsumer({ overrides: Object.fromEntries(PACKAGES.map((name) => [`@temporalio/${name}`, OTHER_SDK])) })
})
afterAll(() => consumer?.remove())

it('serves a session with its own bundle', async () => {
  const read = async (path: string) =>
    JSON.parse(await readFile(join(consumer.folder, 'node_modules', path), 'utf8')) as Record<string, string>
  expect((await read('@temporalio/worker/package.json')).version).toBe(OTHER_SDK)
  expect((await read('pawl/dist/workflow-bundle.json')).sdk).not.toBe(OTHER_SDK)
  const env = {
    TEMPORAL_ADDRESS: temporalAddress,
    TEMPORAL_NAMESPACE: namespace,
    DATABASE_URL: databaseUrl,
    TASK_QUEUE: `package-other-sdk-${process.pid}`,
  }
  const { text } = answerOf<{ text: string }>(await consumer.node(['ask.mjs'], { env }))
  expect(text).toMatch(/^They make .*5/)
})
