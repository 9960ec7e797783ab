// A supervised worker with its defaults, and a client in the same program. The variant is the tool's effect.
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { superviseWorkers } from 'pawl/worker'
import { serve, setting } from '../program.mjs'

const temporal = { address: setting.temporalAddress, namespace: setting.namespace }
const shared = { temporal, postgres: setting.databaseUrl, taskQueue: `bench-peers-pawl-${setting.variant}` }
const supervisor = await superviseWorkers({ module: fileURLToPath(new URL('agent.mjs', import.meta.url)), processes: 2, ...shared })
await supervisor.ready()
const pawl = await Pawl.connect(shared)

await serve(
  async (conversation) => {
    const session = pawl.session(conversation.id, { agent: 'bench' })
    await (await session.send(JSON.stringify(conversation))).result({ timeout: '10m' })
    return { workflowId: `pawl:${session.id}` }
  },
  async () => {
    await pawl.close()
    await supervisor.shutdown()
  },
)
