// The commands for decisions on waiting calls.
import type { Command } from 'commander'
import { answerCommand } from './answer.ts'
import { approveCommand } from './approve.ts'
import { denyCommand } from './deny.ts'
import { resolveCommand } from './resolve.ts'

/** All commands for decisions. */
export function decidingCommands(): Command[] {
  return [approveCommand(), denyCommand(), resolveCommand(), answerCommand()]
}
