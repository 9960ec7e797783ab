// `pawl erase <id>`: deletes a session's content permanently, in the side store and in Temporal.
import type { EraseReport } from '../../client/index.ts'
import { defined } from '../../session/defined.ts'
import { deploymentOptions } from '../connecting.ts'
import { jsonOption, option, reasonOption } from '../options.ts'
import { type ChangeFlags, sessionCommand } from '../session-command.ts'

export const eraseCommand = sessionCommand<ChangeFlags & { force?: true }>({
  name: 'erase',
  summary:
    "permanently delete a session's content: its rows, its archive and its histories in Temporal; a row in `audit` records who and why",
  options: [
    // An erasure cannot be undone: its author is not guessed.
    option('--by <who>', 'who requests it; required, and recorded').makeOptionMandatory(),
    reasonOption(),
    option('--force', 'terminate the session if it is open'),
    ...deploymentOptions(),
    jsonOption(),
  ],
  async run(pawl, session, { by, reason, force }) {
    const report = await pawl.erase(session, { by, ...defined({ reason, force }) })
    return { json: { event: 'erased', ...report }, lines: linesOfErased(report) }
  },
})

function linesOfErased({ sessionId, terminated, executions, rows, forks, parent, children, leftovers }: EraseReport): string[] {
  const counts = Object.entries(rows).filter(([, n]) => n > 0)
  return [
    `session ${sessionId} erased${terminated ? '; it was open and has been terminated' : ''}`,
    ...counts.map(([table, n]) => `  ${String(n).padStart(10)} ${table}`),
    `  ${String(executions).padStart(10)} histories in Temporal`,
    ...(children.length > 0 ? [`The sessions that answered its agent calls were erased, too: ${children.join(', ')}`] : []),
    ...(forks.length > 0 ? [`Its forks have their own copies of its past: ${forks.join(', ')}`] : []),
    ...(parent === null ? [] : [`It was forked from ${parent}, which still has the inherited past.`]),
    `pawl cannot reach: ${leftovers.join('; ')}.`,
  ]
}
