// The worker module of three retail agents, each with the model of another provider, whose servers belong to the test.
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { defineTool, defineWorker, type Model } from 'pawl'
import { aiSdk, anthropic } from 'pawl/models'
import { z } from 'zod'
import { retailTools, retailWith, services } from './agent.ts'
import { ATTACHMENT, contentOf } from './hostile.ts'

const url = process.env.STRICT_PROVIDER_URL ?? ''
const apiKey = 'test'

const attachment = defineTool({
  name: ATTACHMENT,
  description: 'Returns an attachment of the order.',
  input: z.object({ number: z.number() }),
  effect: 'read',
  execute: ({ number }) => contentOf(number),
})

const agent = (name: string, model: Model) =>
  retailWith({ name, model, tools: [...retailTools(), attachment], retry: { maxRetries: 5, baseDelay: 100 } })

export default defineWorker({
  agents: [
    agent('Anthropic', anthropic('claude-sonnet-5-5', { apiKey, baseURL: url })),
    agent('OpenAI', aiSdk(createOpenAI({ apiKey, baseURL: `${url}/v1` })('gpt-5.4'))),
    agent('Google', aiSdk(createGoogleGenerativeAI({ apiKey, baseURL: `${url}/v1beta` })('gemini-3.5-flash'))),
  ],
  services,
})
