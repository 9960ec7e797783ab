// The tools of the random sessions: every effect, every scope of a key, with and without verify.
import { z } from 'zod'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { Tool } from '../../../src/agent/tool.ts'

const input = z.looseObject({ id: z.number() })
const common = { description: 'For random sessions.', input, execute: () => null }

export const TOOLS: ReadonlyMap<string, Tool> = new Map(
  [
    defineTool({ ...common, name: 'look', effect: 'read' }),
    defineTool({ ...common, name: 'set', effect: 'idempotent' }),
    defineTool({ ...common, name: 'put', effect: 'idempotent', idempotency: 'session' }),
    defineTool({ ...common, name: 'pay', effect: 'external', verify: () => ({ happened: 'unknown' }) }),
    defineTool({ ...common, name: 'mail', effect: 'external', idempotency: 'call' }),
  ].map((tool) => [tool.name, tool]),
)
