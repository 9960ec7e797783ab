// The embedded Temporal server, on which the tests of schedules, sessions and erasure run, has the settings of docker-compose.yml.
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { CLI_RELEASE, DYNAMIC_CONFIG, RETENTION_MS } from '../../../src/local/temporal/release.ts'

const read = (path: string): Promise<string> => readFile(new URL(`../../../${path}`, import.meta.url), 'utf8')

it('the embedded server has the dynamic configuration of the compose file', async () => {
  const text = await read('docker/temporal-dynamic-config.yaml')
  const settings = [...text.matchAll(/^([\w.]+):\n {2}- value: (.+)\n {4}constraints: \{\}$/gm)].map(([, name, value]) => [name, value])
  expect(settings).not.toEqual([])
  // Every setting was read.
  expect(settings).toHaveLength(text.match(/^[^#\s]/gm)?.length ?? 0)
  const embedded = Object.entries(DYNAMIC_CONFIG).map(([name, value]) => [name, value.replaceAll('"', '')])
  expect(Object.fromEntries(settings)).toEqual(Object.fromEntries(embedded))
  expect(await read('docker-compose.yml')).toContain('./docker/temporal-dynamic-config.yaml:/etc/temporal/config/dynamicconfig/pawl.yaml')
})

it('the embedded server keeps histories as long as the one of the compose file', async () => {
  expect(await read('docker/temporal-namespace.sh')).toContain(`retention=${RETENTION_MS / 3_600_000}h`)
})

it('the embedded server is of the release of the compose file', async () => {
  const compose = await read('docker-compose.yml')
  const [, server] = /temporalio\/server:([\d.]+)/.exec(compose) ?? []
  // The command line of that release contains this server.
  expect({ server, cli: CLI_RELEASE }).toEqual({ server: '1.29.1', cli: '1.5.1' })
})
