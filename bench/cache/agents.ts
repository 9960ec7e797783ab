// The agents of `cache.ts`: the same model, tool and instructions, without and with a mind.
import type Anthropic from '@anthropic-ai/sdk'
import { type Agent, defineAgent, defineHook, defineTool, sections } from 'pawl'
import { anthropic } from 'pawl/models'
import { z } from 'zod'

const RESULT = 'What there is to see. '.repeat(100)

/** A plain one; one with plan, memory, sections and hooks; one whose conversation is compacted. */
export function agentsOf(client: Anthropic): Agent[] {
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    input: z.object({ turn: z.number() }),
    effect: 'read',
    execute: ({ turn }) => `${turn}: ${RESULT}`,
  })
  const common = {
    model: anthropic('claude-sonnet-5-5', { client }),
    instructions: 'You look at things and say what you see. '.repeat(100),
    tools: [look],
    limits: { maxTurns: 10_000 },
  }
  const mind = {
    plan: { guidance: true },
    memory: [{ block: 'notes', maxChars: 10_000 }],
    sections: [sections.plan, sections.progress, sections.memory],
    hooks: [
      defineHook({ on: 'turnStart', run: ({ turn }) => (turn % 10 === 0 ? { systemMessage: 'Take care.' } : undefined) }),
      defineHook({
        on: 'postToolUse',
        tools: 'look',
        run: (_, { turn }) => (turn % 10 === 0 ? { appendContext: 'It is late.' } : undefined),
      }),
    ],
  }
  // Some twenty turns fill three quarters of it.
  const small = { model: anthropic('claude-sonnet-5-5', { client, contextWindow: 24_000 }), compaction: { at: 0.75, keepTurns: 4 } }
  return [
    defineAgent({ name: 'plain', ...common }),
    defineAgent({ name: 'mind', ...common, ...mind }),
    defineAgent({ name: 'compacting', ...common, ...small }),
  ]
}
