// The agent of `stream.ts`: its model says one word after another; each word is the time at which it says it.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { now, type StreamOrder } from './clock.ts'

const speaker = defineAgent({
  name: 'speaker',
  instructions: '',
  model: scripted(async ({ messages }, ctx) => {
    const content = messages[0]?.content
    const { words, perSecond, firstAfterMs } = JSON.parse(typeof content === 'string' ? content : '{}') as StreamOrder
    await sleep(firstAfterMs)
    const begunAt = performance.now()
    for (let word = 0; word < words; word++) {
      const dueIn = begunAt + (word * 1_000) / perSecond - performance.now()
      if (dueIn > 0) await sleep(dueIn)
      ctx.onDelta({ type: 'text', index: 0, text: `${now()} ` })
    }
    return 'done'
  }),
})

export default defineWorker({ agents: [speaker] })
