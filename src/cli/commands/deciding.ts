// The commands by which a person speaks to calls that wait.
import type { Command } from 'commander'
import { answerCommand } from './answer.ts'
import { approveCommand } from './approve.ts'
import { denyCommand } from './deny.ts'
import { resolveCommand } from './resolve.ts'

/** All of them. */
export function decidingCommands(): Command[] {
  return [approveCommand(), denyCommand(), resolveCommand(), answerCommand()]
}
