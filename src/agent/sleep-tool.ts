// `sleepTool`: the model waits until a time or a message.
import { z } from 'zod'
import { checkOptions, duration, options, text } from '../options/check.ts'
import { type Duration, durationText } from '../session/duration.ts'
import { defineTool } from './define-tool.ts'
import { DeclarationError } from './errors.ts'
import type { Tool } from './tool.ts'

/** Options of `sleepTool`. */
interface SleepToolOptions {
  /** The longest sleep that the model may ask for, at most one year. Required. */
  max: Duration
  /** The tool's name. Default `'sleep'`. */
  name?: string
}

const YEAR_MS = 365 * 86_400_000
const OPTIONS = options({
  max: duration({ min: 1_000, max: YEAR_MS, limits: 'from one second to one year', example: '7d' }),
  name: text().optional(),
})

/**
 * A tool with which the model waits until a time, or until a message arrives, whichever comes first; the result says which. Nothing runs
 * meanwhile: the call is one timer of the session. The run stays in progress, so its deadline counts.
 * @throws DeclarationError `invalid_tool`.
 */
export function sleepTool(given: SleepToolOptions): Tool {
  const { max: maxMs, name = 'sleep' } = checkOptions(
    OPTIONS,
    given,
    (problem) => new DeclarationError('invalid_tool', `sleepTool: ${problem}`),
  )
  const longest = durationText(maxMs)
  const input = z
    .object({
      seconds: z.number().min(0).optional().describe('How many seconds to sleep.'),
      until: z.iso.datetime({ offset: true }).optional().describe('When to wake up, such as 2026-12-24T18:00:00+01:00.'),
    })
    .refine(({ seconds, until }) => (seconds === undefined) !== (until === undefined), { error: 'Pass either seconds or until.' })
    .refine((asked) => sleepMs(asked) <= maxMs, { error: `The longest sleep is ${longest}.` })
  const tool = defineTool({
    name,
    description: `Sleeps until a time or until the next message from the user, whichever comes first, and says which. Use it to wait for something instead of asking again and again. At most ${longest}.`,
    input,
    effect: 'read',
    execute: 'client',
  })
  return { ...(tool as unknown as Tool), sleeps: (asked) => Math.max(1, Math.round(sleepMs(asked as z.output<typeof input>))) }
}

/** A time that has passed is now. */
function sleepMs({ seconds, until }: { seconds?: number | undefined; until?: string | undefined }): number {
  return seconds === undefined ? Date.parse(until ?? '') - Date.now() : seconds * 1_000
}
