// The OpenTelemetry resource of all signals.
import type { Resource } from '@opentelemetry/resources'
import { loaded } from './packages.ts'

/**
 * The version of the semantic conventions that names of spans, attributes and metrics follow. It is the last release that includes the
 * conventions for generative AI. The durations of agents and tools follow the first separate release of those, 0.1.0.
 */
const CONVENTIONS = '1.41.0'

/** What produces the signals: all of them name it. */
export const SCOPE = { name: 'pawl', schemaUrl: `https://opentelemetry.io/schemas/${CONVENTIONS}` }

/** The resource with these attributes. @throws WorkerError. */
export async function resourceFrom(attributes: Record<string, string>): Promise<Resource> {
  const { defaultResource, resourceFromAttributes } = await loaded('@opentelemetry/resources', () => import('@opentelemetry/resources'))
  // `telemetry.sdk.*`, and nothing about the process.
  return defaultResource().merge(resourceFromAttributes(attributes))
}
