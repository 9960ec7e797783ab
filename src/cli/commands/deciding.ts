// The commands that decide on one call: `pawl approve`, `deny`, `answer` and `resolve`.
import { Argument, InvalidArgumentError, type Option } from 'commander'
import type { Remember, SessionHandle } from '../../client/index.ts'
import { defined } from '../../session/defined.ts'
import { isObject, type Json } from '../../session/json.ts'
import type { ResolveRequest } from '../../session/protocol/protocol.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { digestOf } from '../chat/decisions.ts'
import { deploymentOptions } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { here } from '../here.ts'
import { byOption, jsonOf, jsonOption, option, ordinalOf, parsedJson, severalOf } from '../options.ts'
import { type ChangeFlags, type SessionCommand, sessionCommand } from '../session-command.ts'
import { printable } from '../terminal.ts'

interface DecisionFlags extends ChangeFlags {
  note?: string
  role?: string[]
}

/** A decision on a call; `decide` returns the text, and what `--json` prints beside the call. */
interface CallCommand<O extends DecisionFlags, Words extends unknown[]> extends Omit<SessionCommand<O, Words>, 'run'> {
  decide(
    session: SessionHandle,
    callId: string,
    options: O,
    ...words: Words
  ): Promise<{ event: string; text: string } & Record<string, unknown>>
}

function callCommand<O extends DecisionFlags = DecisionFlags, Words extends unknown[] = []>(row: CallCommand<O, Words>) {
  return sessionCommand<O, [callId: string, ...words: Words]>({
    ...row,
    words: [new Argument('<call>', "the call's id, from `pawl pending`"), ...(row.words ?? [])],
    options: [...deploymentOptions(), byOption(), jsonOption(), ...row.options],
    async run(pawl, id, options, callId, ...words) {
      const session = pawl.session(id)
      const { event, text, ...details } = await row.decide(session, callId, options, ...words)
      const isPaused = await isPausedNow(session)
      const later = isPaused ? `. The session is paused: this takes effect once it continues (\`${here(SUGGESTIONS.statusOf(id))}\`)` : ''
      return {
        json: { event, callId, ...details, ...(isPaused && { paused: true }), sessionId: id },
        lines: [printable(text + later)],
      }
    },
  })
}

/** The decision is already made, so the command does not fail if the session does not answer this query. */
async function isPausedNow(session: SessionHandle): Promise<boolean> {
  const state = await session.state().catch(() => undefined)
  return state?.paused !== undefined
}

function noteOption(what: string): Option {
  return option('--note <text>', what)
}

function roleOption(): Option {
  return option('--role <role>', 'your roles, separated by commas, for a call that only people with a role may decide', severalOf)
}

/** The person and the note. */
function saidBy({ by, note }: DecisionFlags): { by: string; note?: string } {
  return { by, ...defined({ note }) }
}

/** The same, with the person's roles. */
function decidedBy(flags: DecisionFlags): ReturnType<typeof saidBy> & { roles?: string[] } {
  return { ...saidBy(flags), ...defined({ roles: flags.role }) }
}

interface ApproveFlags extends DecisionFlags {
  digest?: string
  input?: Json
  remember?: string
  matching?: Json
  until?: number
  uses?: number
}

const approve = callCommand<ApproveFlags>({
  name: 'approve',
  summary: 'approve a call, which is then executed',
  options: [
    option('--digest <digest>', 'digest of the arguments that you have read; others are refused (default: the current arguments)'),
    option('--input <json>', "execute it with these arguments instead of the model's", jsonOf),
    roleOption(),
    option(
      '--remember <scope>',
      'approve later calls, too: session, context, or members of the context, separated by commas (default: this call only)',
    ),
    option(
      '--matching <what>',
      'with --remember: tool, input, or bounds as JSON: \'{"/cents":{"max":10000}}\' (default: input)',
      matchingOf,
    ),
    option('--until <time>', 'with --remember: until then, such as 2026-12-01T00:00Z', momentOf),
    option('--uses <n>', 'with --remember: for so many calls', ordinalOf),
    noteOption('the reason; recorded'),
  ],
  check: ({ remember, matching, until, uses }) => {
    if (remember === undefined && [matching, until, uses].some((one) => one !== undefined))
      throw new CliError('invalid_usage', 'Use --matching, --until and --uses with --remember.')
  },
  async decide(session, callId, options) {
    const { input } = options
    const remember = rememberOf(options)
    const looked = await digestOf(session, callId, options.digest)
    const answer = await session.approve(callId, { digest: looked, ...decidedBy(options), ...defined({ input, remember }) })
    const { digest, rule, released = [] } = answer
    const later =
      rule === undefined
        ? ''
        : `; the rule ${rule} approves later calls${released.length > 0 ? ` and has approved ${released.join(', ')}` : ''}`
    return {
      event: 'approved',
      ...answer,
      text: `${callId} is approved${input === undefined ? '' : ' with other arguments'} (${digest})${later}`,
    }
  },
})

function rememberOf({ remember, matching = 'input', until, uses }: ApproveFlags): Remember | undefined {
  if (remember === undefined) return undefined
  const scope = remember === 'session' || remember === 'context' ? remember : { context: severalOf(remember) }
  return { for: scope, matching: matching as Remember['matching'], ...defined({ until, uses }) }
}

function matchingOf(text: string): Json {
  return text === 'tool' || text === 'input' ? text : parsedJson(text, '{"/cents":{"max":10000}}')
}

function momentOf(text: string): number {
  const at = Date.parse(text)
  if (Number.isNaN(at)) throw new InvalidArgumentError('Use a time such as 2026-12-01T00:00Z.')
  return at
}

const deny = callCommand<DecisionFlags & { digest?: string }>({
  name: 'deny',
  summary: 'deny a call, which is then not executed',
  options: [
    option('--digest <digest>', 'digest of the arguments that you have read (default: the current arguments)'),
    option('--reason <text>', 'the reason, which the model sees'),
    roleOption(),
    noteOption('a note that is only recorded'),
  ],
  async decide(session, callId, options) {
    const digest = await digestOf(session, callId, options.digest)
    await session.deny(callId, { digest, ...decidedBy(options), ...defined({ reason: options.reason }) })
    return { event: 'denied', digest, text: `${callId} is denied` }
  },
})

const answer = callCommand<DecisionFlags & { digest?: string }, [result: Json]>({
  name: 'answer',
  summary: 'answer a call of a client tool, or the question of another call',
  words: [new Argument('<json>', 'the answer; to a question: {"action":"accept","content":…}, or decline, cancel').argParser(answerOf)],
  options: [option('--digest <digest>', 'digest of the question that you have read; another question is not answered')],
  async decide(session, callId, { by, digest }, result) {
    await session.answer(callId, result, { by, ...defined({ digest }) })
    return { event: 'answered', text: `${callId} is answered` }
  },
})

function answerOf(text: string): Json {
  try {
    return jsonOf(text)
  } catch {
    throw new InvalidArgumentError('Use JSON; a string needs its own quotes, as in \'"yes"\'.')
  }
}

interface ResolveFlags extends DecisionFlags {
  happened?: Json
  notHappened?: true
  retry?: true
  skip?: true
}

const resolve = callCommand<ResolveFlags>({
  name: 'resolve',
  summary: 'resolve the unknown outcome of a call',
  options: [
    option(
      '--happened <json>',
      'the effect happened; <json> is what the tool would have returned: \'{"id":"re_1"}\', \'"re_1"\' or null',
      resultOf,
    ),
    option('--not-happened', 'the effect did not happen; the call is executed again if its run waits for it'),
    option('--retry', 'the outcome is not known; execute the call again'),
    option('--skip', 'the outcome is not known; tell the model, and do not repeat the call'),
    noteOption('the reason; recorded'),
  ],
  check: reportedOutcome,
  async decide(session, callId, options) {
    const { resolution, says } = reportedOutcome(options)
    await session.resolve(callId, resolution, saidBy(options))
    return { event: 'resolved', resolution, text: `${callId} is resolved: ${says}` }
  },
})

/** Accepts only the bare result. The wrapper that the client's method expects would be recorded as part of the result. */
function resultOf(text: string): Json {
  const result = parsedJson(text, '{"id":"re_1"}')
  if (isObject(result) && result.happened === true && Object.keys(result).every((name) => name === 'happened' || name === 'result')) {
    const bare = JSON.stringify(result.result ?? null)
    throw new InvalidArgumentError(`Pass only the tool's result, without { happened, result } around it: --happened '${bare}'.`)
  }
  return result
}

function reportedOutcome({ happened, notHappened, retry, skip }: ResolveFlags): { resolution: ResolveRequest['resolution']; says: string } {
  const said: { resolution: ResolveRequest['resolution']; says: string }[] = [
    ...(happened === undefined ? [] : [{ resolution: { happened: true as const, result: happened }, says: 'it happened' }]),
    ...(notHappened ? [{ resolution: { happened: false as const }, says: 'it did not happen' }] : []),
    ...(retry ? [{ resolution: 'retry' as const, says: 'it is executed again' }] : []),
    ...(skip ? [{ resolution: 'skip' as const, says: 'it stays unknown' }] : []),
  ]
  const [one] = said
  if (one && said.length === 1) return one
  throw new CliError('invalid_usage', 'Use exactly one of --happened <json>, --not-happened, --retry and --skip.')
}

export const DECIDING = [approve, deny, resolve, answer]
