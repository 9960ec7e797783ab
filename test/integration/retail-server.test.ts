// The retail workload's external process: what it honours, what it repeats, and what it can be asked.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RetailClient, RetailError, connectRetail } from '../retail/client.ts'
import { databaseHash, resultHash } from '../retail/database.ts'
import { type RetailProcess, startRetail } from '../retail/process.ts'
import { hasWorkload, readDatabase, readExpected, readTasks } from '../retail/workload.ts'

describe.skipIf(!hasWorkload)('the retail server', () => {
  let server: RetailProcess
  let client: RetailClient

  beforeAll(async () => {
    server = await startRetail({ latencyMs: 20 })
    client = connectRetail(server.url)
  }, 30_000)
  afterAll(() => server?.stop())

  const firstCall = (tool: string) => {
    for (const task of hasWorkload ? readTasks() : []) {
      const [only, ...more] = task.actions
      if (only?.name === tool && more.length === 0) return { ...only, expected: readExpected().get(task.id) }
    }
    return expect.fail(`no task has just ${tool}`)
  }

  it('the retail server gives every world a fresh database', async () => {
    const { name, kwargs, expected } = firstCall('cancel_pending_order')
    const text = await client.execute('fresh-a', name, kwargs, { key: 'k' })
    expect(resultHash(text)).toBe(expected?.results_canonical[0])
    expect((await client.report('fresh-a')).finalHash).toBe(expected?.final_hash)
    expect((await client.report('fresh-b')).finalHash).toBe(databaseHash(readDatabase()))
  })

  it('the retail server executes an idempotent tool once per key, even if two requests are in flight at once', async () => {
    const { name, kwargs } = firstCall('modify_pending_order_items')
    const send = () => client.execute('idempotent', name, kwargs, { key: 'same' })
    const [one, two] = await Promise.all([send(), send()])
    expect(await send()).toBe(one)
    expect(two).toBe(one)
    const { executions, replays } = await client.report('idempotent')
    expect(executions).toHaveLength(1)
    expect(replays).toBe(2)
  })

  it('the retail server refuses a key that was already used for a different request', async () => {
    const { name, kwargs } = firstCall('cancel_pending_order')
    await client.execute('reused', name, kwargs, { key: 'k' })
    const again = client.execute('reused', name, { ...kwargs, order_id: '#W0000000' }, { key: 'k' })
    await expect(again).rejects.toMatchObject({ constructor: RetailError, status: 422 })
  })

  it('the retail server executes an external tool on every request, regardless of the key', async () => {
    const { name, kwargs } = firstCall('return_delivered_order_items')
    await client.execute('external', name, kwargs, { key: 'same' })
    const second = await client.execute('external', name, kwargs, { key: 'same' })
    expect(second).toBe('Error: non-delivered order cannot be returned')
    const { executions, replays } = await client.report('external')
    expect(executions.map(({ tool, key, wrote }) => ({ tool, key, wrote }))).toEqual([
      { tool: name, key: 'same', wrote: true },
      { tool: name, key: 'same', wrote: false },
    ])
    expect(replays).toBe(0)
  })

  it('the retail server looks up an execution by its reference, and says if there was none', async () => {
    const { name, kwargs } = firstCall('exchange_delivered_order_items')
    expect(await client.lookUp('look-up', name, 'r1', {})).toBeNull()
    const text = await client.execute('look-up', name, kwargs, { key: 'r1' })
    expect(await client.lookUp('look-up', name, 'r1', {})).toBe(text)
    expect(await client.lookUp('look-up', name, 'r2', {})).toBeNull()
  })

  it('the retail server answers a lookup only after the request that was cut off has taken effect', async () => {
    const { name, kwargs } = firstCall('exchange_delivered_order_items')
    const arrived = new Promise<void>((resolve) => server.onRequest(() => resolve()))
    const cut = new AbortController()
    const lost = client.execute('cut-off', name, kwargs, { key: 'r1', signal: cut.signal })
    await arrived
    cut.abort()
    await expect(lost).rejects.toThrow()
    expect(await client.lookUp('cut-off', name, 'r1', {})).toMatch(/exchange requested/)
    expect((await client.report('cut-off')).executions).toHaveLength(1)
  })
})
