// The scripted model of the desk: the house rules, one step per model call.
import type { Model } from 'pawl'
import { scripted } from 'pawl/testing'
import { setTimeout as sleep } from 'node:timers/promises'
import { houseRules } from './house-rules.ts'
import { nextStep } from './replay.ts'

/** A model that follows the house rules. It takes a few milliseconds, so that a kill can land in the middle of a model call too. */
export const deskModel: Model = scripted(
  async (request, { signal }) => {
    await sleep(10 + ((request.run * 7 + request.turn * 13) % 30), undefined, { signal })
    return nextStep(request, houseRules)
  },
  { name: 'house-rules' },
)
