// The commands that mark a point of a session's past or return to one: `pawl checkpoint`, `rollback` and `fork`.
import { Option } from 'commander'
import { counted } from '../../session/counted.ts'
import { defined } from '../../session/defined.ts'
import type { RollbackReport } from '../../session/protocol/protocol.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { deploymentOptions } from '../connecting.ts'
import { here } from '../here.ts'
import { byOption, jsonOption, option, reasonOption } from '../options.ts'
import { type ChangeFlags, sessionCommand } from '../session-command.ts'
import { neededTarget, pointOptions, type TargetOptions, targetIn } from '../target.ts'
import { oneLine, paint } from '../terminal.ts'

const checkpoint = sessionCommand<ChangeFlags & { reason: string }>({
  name: 'checkpoint',
  summary: 'make a checkpoint of a session: a point to roll back to or fork from',
  options: [...deploymentOptions(), byOption(), reasonOption().default('requested'), jsonOption()],
  async run(pawl, session, { by, reason }) {
    const { version, made } = await pawl.session(session).checkpoint(reason, { by })
    const rollback = here(SUGGESTIONS.rollback({ session, checkpoint: version }))
    return {
      json: { event: made ? 'checkpoint_made' : 'checkpoint_requested', sessionId: session, version },
      lines: [`checkpoint ${version} of session ${session}${made ? '' : ', once its turn has closed'}: ${rollback}`],
    }
  },
})

const rollback = sessionCommand<ChangeFlags & TargetOptions & { keys?: 'kept' | 'forgotten' }>({
  name: 'rollback',
  summary: 'roll a session back to a point of its past; later messages are archived, and a run in progress is interrupted',
  options: [
    ...pointOptions(),
    ...deploymentOptions(),
    byOption(),
    reasonOption(),
    new Option('--keys <keys>', 'forgotten: you have undone the effects after that point, so they may happen again').choices([
      'kept',
      'forgotten',
    ]),
    jsonOption(),
  ],
  check: neededTarget,
  async run(pawl, session, options) {
    const { by, reason, keys } = options
    const moved = await pawl.session(session).rollback({ ...neededTarget(options), by, ...defined({ reason, keys }) })
    return { json: { event: 'rolled_back', sessionId: session, ...moved }, lines: linesOfMove(session, moved) }
  },
})

function linesOfMove(session: string, { toSeq, effects, moreEffects }: RollbackReport): string[] {
  const undone = effects.length + moreEffects
  return [
    `session ${session} is back at event ${toSeq}`,
    ...(undone === 0 ? [] : [paint('yellow', `not undone, ${counted(undone, 'effect')}:`)]),
    ...effects.map(({ callId, tool, status, effectId }) =>
      oneLine(`- ${callId} ${tool} ${status}${effectId === undefined ? '' : ` ${effectId}`}`),
    ),
    ...(moreEffects > 0 ? [`- and ${moreEffects} earlier ones: ${here(SUGGESTIONS.listCalls(session))}`] : []),
  ]
}

interface ForkFlags extends ChangeFlags, TargetOptions {
  id?: string
  keys: 'carried' | 'forgotten'
  interrupt: boolean
}

const fork = sessionCommand<ForkFlags>({
  name: 'fork',
  summary: "create a session from a point of another session's past (default: its current state); they share nothing afterwards",
  options: [
    ...pointOptions(),
    ...deploymentOptions(),
    option('--id <id>', "the new session's id (default: a new id)"),
    new Option('--keys <what>', 'whether effects that completed under keys of the whole session count as completed in the fork')
      .choices(['carried', 'forgotten'])
      .default('carried'),
    option('--no-interrupt', 'do not interrupt a run in progress; the fork begins before it'),
    byOption(),
    jsonOption(),
  ],
  async run(pawl, session, options) {
    const { id, keys, interrupt, by } = options
    const made = await pawl.session(session).fork({ ...targetIn(options), keys, interrupt, by, ...defined({ id }) })
    return {
      json: { event: 'forked', sessionId: made.id, from: session },
      lines: [`session ${made.id}, forked from ${session}`],
    }
  },
})

export const GOING_BACK = [checkpoint, rollback, fork]
