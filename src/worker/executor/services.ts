// The services of a worker definition: made once per process.
import type { Services } from '../../agent/tool.ts'
import type { WorkerDefinition } from '../definition.ts'

/** The services, and what disposes of them. */
export async function makeServices(services: WorkerDefinition['services']): Promise<{ services: Services; dispose(): Promise<void> }> {
  const made: Services = (await (typeof services === 'function' ? services() : services)) ?? {}
  return {
    services: made,
    async dispose() {
      if (typeof made.dispose === 'function') await made.dispose()
    },
  }
}
