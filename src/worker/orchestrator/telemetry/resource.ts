// The resource that all signals name.
import type { Resource } from '@opentelemetry/resources'
import { loaded } from './packages.ts'

/** The resource with these attributes. @throws WorkerError. */
export async function resourceFrom(attributes: Record<string, string>): Promise<Resource> {
  const { resourceFromAttributes } = await loaded('@opentelemetry/resources', () => import('@opentelemetry/resources'))
  return resourceFromAttributes(attributes)
}
