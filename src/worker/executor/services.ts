// The services of a worker definition, created once per process.
import type { AnyServices } from '../../agent/tool.ts'
import { PawlError } from '../../session/errors.ts'
import type { WorkerDefinition } from '../definition.ts'
import { WorkerError } from '../errors.ts'
import { reasonOf } from './reasons.ts'

/** Creates the services; also returns the function that disposes of them. @throws WorkerError `services_failed`. */
export async function makeServices(declared: WorkerDefinition['services']): Promise<{ services: AnyServices; dispose(): Promise<void> }> {
  const services = await make(declared)
  return {
    services,
    async dispose() {
      if (typeof services.dispose === 'function') await services.dispose()
    },
  }
}

async function make(declared: WorkerDefinition['services']): Promise<AnyServices> {
  try {
    return (await (typeof declared === 'function' ? declared() : declared)) ?? {}
  } catch (cause) {
    if (cause instanceof PawlError) throw cause
    throw new WorkerError(
      'services_failed',
      `The services could not be created: ${reasonOf(cause)}. Fix \`services\`, or its dependencies.`,
      {
        cause,
      },
    )
  }
}
