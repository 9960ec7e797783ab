// The commands that pause a session or let it continue: `pawl pause`, `unpause`, `raise`, `resume` and `regenerate`.
import { InvalidArgumentError, Option } from 'commander'
import type { SessionHandle } from '../../client/types.ts'
import { defined } from '../../session/defined.ts'
import type { BudgetScope } from '../../session/spending/spend.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { linesOfState } from '../chat/lines.ts'
import { deploymentOptions } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { byOption, jsonOption, option, reasonOption } from '../options.ts'
import { failIfStopped } from '../outcome.ts'
import { type ChangeFlags, type CommandOutput, type RequestFlags, sessionCommand } from '../session-command.ts'

const CHANGE = [...deploymentOptions(), byOption(), reasonOption(), jsonOption()]

const pause = sessionCommand({
  name: 'pause',
  summary: 'finish the step in progress, then start no other step until `pawl unpause`; messages wait',
  options: CHANGE,
  async run(pawl, id, { by, reason }) {
    const session = pawl.session(id)
    const { already } = await session.pause({ by, ...defined({ reason }) })
    return stateAfter(session, 'paused', already && 'it was already paused; nothing changed')
  },
})

const unpause = sessionCommand({
  name: 'unpause',
  summary: 'let a paused session continue',
  options: CHANGE,
  async run(pawl, id, { by, reason }) {
    const session = pawl.session(id)
    await checkBudget(session)
    const { already } = await session.unpause({ by, ...defined({ reason }) })
    return stateAfter(session, 'unpaused', already && 'it was not paused; nothing changed')
  },
})

/** @throws CliError `budget_assumed` if pawl would pause the session again before its next model call. */
async function checkBudget(session: SessionHandle): Promise<void> {
  const { paused } = await session.state()
  if (!paused?.raise?.length) return
  const raises = paused.raise.map((one) => `\`${SUGGESTIONS.raise({ session: session.id, ...one })}\``)
  throw new CliError(
    'budget_assumed',
    `Session "${session.id}" is paused because too little of its budget is left. Without a higher limit, it would be paused again at once. Raise the limit, which also unpauses it: ${raises.join(' and ')}.`,
  )
}

interface RaiseFlags extends ChangeFlags {
  maxUsd?: number
  maxTokens?: number
  scope: BudgetScope
}

const raise = sessionCommand<RaiseFlags>({
  name: 'raise',
  summary: 'raise the budget of a run or a session; a session that ran out of it continues',
  options: [
    ...deploymentOptions(),
    option('--max-usd <usd>', 'the new limit in US dollars: the total, not the amount to add', numberOf),
    option('--max-tokens <tokens>', 'the new limit in tokens', numberOf),
    new Option('--scope <scope>', 'whose limit').choices(['run', 'session']).default('run'),
    byOption(),
    reasonOption(),
    jsonOption(),
  ],
  check({ maxUsd, maxTokens }) {
    if (maxUsd === undefined && maxTokens === undefined)
      throw new CliError('invalid_usage', 'Pass the new limit: --max-usd, --max-tokens or both.')
  },
  async run(pawl, id, { maxUsd, maxTokens: maxTotalTokens, scope, by, reason }) {
    const session = pawl.session(id)
    const { already } = await session.raise({ scope, by, ...defined({ maxUsd, maxTotalTokens, reason }) })
    return stateAfter(session, 'raised', already && 'the limits were already this high; nothing changed')
  },
})

function numberOf(text: string): number {
  const number = text.trim() === '' ? Number.NaN : Number(text)
  if (!Number.isFinite(number)) throw new InvalidArgumentError('Use a number.')
  return number
}

/** `unchanged`: why the request has changed nothing, or false. */
async function stateAfter(session: SessionHandle, event: string, unchanged: string | false): Promise<CommandOutput> {
  const state = await session.state()
  const lines = [...linesOfState(state), ...(unchanged === false ? [] : [`  ${unchanged}`])]
  return { json: { event, already: unchanged !== false, ...state }, lines }
}

const resume = sessionCommand<RequestFlags>({
  name: 'resume',
  summary: 'reopen a session whose workflow has closed, for any reason, and continue a run that was cut off',
  options: [...deploymentOptions(), jsonOption()],
  async run(pawl, id) {
    const session = pawl.session(id)
    await session.resume()
    const state = await session.state()
    failIfStopped(state)
    return { json: { event: 'resumed', ...state }, lines: linesOfState(state) }
  },
})

const regenerate = sessionCommand({
  name: 'regenerate',
  summary: "answer the newest run's message again; effects that the run completed are replayed, not repeated",
  options: CHANGE,
  async run(pawl, session, { by, reason }) {
    const { messageId } = await pawl.session(session).regenerate({ by, ...defined({ reason }) })
    return {
      json: { event: 'regenerated', sessionId: session, messageId },
      lines: [`message ${messageId} of session ${session} is being answered again`],
    }
  },
})

export const CONTINUING = [pause, unpause, raise, resume, regenerate]
