// The worker module of the retail agent with a model behind the API of a provider, which the test plays.
import { createOpenAI } from '@ai-sdk/openai'
import { defineWorker } from 'pawl'
import { aiSdk } from 'pawl/models'
import { retailWith, services } from './agent.ts'

const model = createOpenAI({ apiKey: 'test', baseURL: `${process.env.RETAIL_PROVIDER_URL}/v1` }).chat('gpt-4.1')

export default defineWorker({ agents: [retailWith({ model: aiSdk(model), retry: { maxRetries: 5, baseDelay: 100 } })], services })
