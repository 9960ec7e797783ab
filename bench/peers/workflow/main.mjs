// The server that Nitro has built, with the Postgres world, and a client in the same program.
import { spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { serve, setting } from '../program.mjs'

const [port] = setting.ports
const address = `http://127.0.0.1:${port}`
Object.assign(process.env, {
  WORKFLOW_TARGET_WORLD: '@workflow/world-postgres',
  WORKFLOW_POSTGRES_URL: setting.databaseUrl,
  WORKFLOW_LOCAL_BASE_URL: address,
  PORT: String(port),
  HOST: '127.0.0.1',
  NODE_ENV: 'production',
})
// The server looks for its world from here.
process.chdir(fileURLToPath(new URL('.', import.meta.url)))
if (!setting.resume) {
  const setup = fileURLToPath(new URL('node_modules/@workflow/world-postgres/bin/setup.js', import.meta.url))
  const { status, stderr } = spawnSync(process.execPath, [setup], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`The tables were not created: ${stderr}`)
}
await import('./.output/server/index.mjs')
while (!(await fetch(address).catch(() => undefined))) await sleep(20)

await serve(
  async (said) => {
    const response = await fetch(`${address}/conversations`, { method: 'POST', body: JSON.stringify(said) })
    if (!response.ok) throw new Error(`The server answered ${response.status}: ${await response.text()}`)
  },
  async () => {},
)
