// The command line's own parts: what a line means, what is shown, what is found.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WorkflowNotFoundError } from '@temporalio/client'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { announceAsJson } from '../../src/cli/running/announce.ts'
import { commandOf } from '../../src/cli/chat/slash-commands.ts'
import { CliError, describeError } from '../../src/cli/errors.ts'
import { followRuns } from '../../src/cli/chat/follow.ts'
import { pdfBlock, textDocument } from '../support/documents.ts'
import type { Json } from '../../src/session/json.ts'
import { linesOfEvent, linesOfMessages } from '../../src/cli/chat/lines.ts'
import { findModule } from '../../src/cli/running/module.ts'
import { oneLine, printable } from '../../src/cli/terminal.ts'
import { RunFailedError, SessionNotFoundError } from '../../src/client/errors.ts'
import type { RunHandle, SettledRun } from '../../src/client/types.ts'
import { NO_USAGE } from '../../src/session/content.ts'
import type { EventBody, SessionEvent } from '../../src/session/events.ts'
import { SUGGESTIONS } from '../../src/session/suggestions.ts'
import type { MessageRow } from '../../src/store/rows.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-cli-'))
})
afterEach(async () => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  await rm(folder, { recursive: true, force: true })
})

const speakers = { session: 's1', agent: 'support', isOwn: (id: string) => id === 'mine' }
const event = (body: EventBody, seq = 1): SessionEvent => ({ v: 1, seq, at: 0, ...body })
const linesOf = (body: EventBody) => linesOfEvent(event(body), speakers)
const call = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'refund_order' }

describe('a conversation that is compacted', () => {
  it('a conversation that is compacted says what the model no longer sees word for word', () => {
    const about = { run: 1, turn: 9, tokens: 165_000, window: 200_000 }
    const compacted = { type: 'compacted', ...about, attempt: 1, upToSeq: 7, summary: 'private', messages: 40 } as const
    expect(linesOf(compacted)).toEqual([
      expect.stringContaining('(compacted at 165000 of 200000 tokens: the model sees 40 more messages as a summary)'),
    ])
    expect(linesOf({ ...compacted, messages: 0, resultBytes: 4_000 })).toEqual([
      expect.stringContaining(': results shortened to 4000 bytes)'),
    ])
    expect(linesOf({ type: 'compaction_failed', ...about, code: 'overloaded_error', reason: 'busy' })).toEqual([
      expect.stringContaining('compaction failed, overloaded_error: busy'),
    ])
  })
})

it('a conversation shows the names of documents in messages and results, not their contents', () => {
  const content = [{ type: 'text' as const, text: 'Read this.' }, pdfBlock({ title: 'terms.pdf', size: 120_000 })]
  expect(linesOf({ type: 'message_received', messageId: 'm', content })).toEqual([
    expect.stringContaining('Read this. [document "terms.pdf", PDF, 120 KB]'),
  ])
  const value = [textDocument('a,b', 'a.csv')] as unknown as Json
  expect(linesOf({ type: 'tool_completed', ...call, attempt: 1, value })).toEqual([
    expect.stringContaining('← refund_order [document "a.csv", text, 3 bytes]'),
  ])
})

it('a conversation says which content the model no longer sees because its provider refused it', () => {
  const content = (['image', 'image', 'text'] as const).map((kind) => ({ seq: 4, kind, size: 9, digest: 'd' }))
  expect(linesOf({ type: 'content_replaced', run: 1, turn: 2, content, reason: 'm: 400 No image.' })).toEqual([
    expect.stringContaining('the provider refused 2 images and 1 text, so the model sees a note instead: m: 400 No image.'),
  ])
})

describe('a typed line', () => {
  it('a typed line is a message unless it begins with a slash', () => {
    expect(commandOf('  Where is my order? ')).toEqual({ name: 'send', text: 'Where is my order?' })
    expect(commandOf('   ')).toEqual({ name: 'nothing' })
  })

  it('a typed line that begins with two slashes is a message that begins with one', () => {
    expect(commandOf('//etc/passwd is gone')).toEqual({ name: 'send', text: '/etc/passwd is gone' })
  })

  it('a typed line names a command, and its argument if it has one', () => {
    expect(commandOf('/state')).toEqual({ name: 'state' })
    expect(commandOf('/resume  abc ')).toEqual({ name: 'resume', id: 'abc' })
    expect(commandOf('/interrupt')).toEqual({ name: 'interrupt' })
    expect(commandOf('/interrupt  Look it  up instead ')).toEqual({ name: 'send', text: 'Look it  up instead', interrupt: true })
    expect(commandOf('/resume')).toMatchObject({ name: 'wrong', advice: expect.stringContaining('/resume <id>') })
    expect(commandOf('/sate')).toMatchObject({ name: 'wrong', advice: expect.stringContaining('/help') })
  })
})

describe('what a chat shows of a session', () => {
  it('a chat shows an output as a whole, as the answer', () => {
    const given = { ...call, tool: 'submit_output', attempt: 0, value: { topic: 'refund' }, content: 'The output was accepted.' }
    expect(linesOf({ type: 'tool_completed', ...given }).join('\n')).toBe('support › {\n  "topic": "refund"\n}')
    const ended = { run: 1, turns: 1, stopReason: 'tool_use' as const, usage: NO_USAGE }
    expect(linesOf({ type: 'run_completed', ...ended, outputCall: 't_1_1_0' })).toEqual([])
  })

  it('a chat shows a tool with its arguments and then with its result, on one line each', () => {
    const issued = { ...call, index: 0, effect: 'external' as const, input: { orderId: 'A1', cents: 5 }, inputDigest: '' }
    expect(linesOf({ type: 'tool_issued', ...issued })).toEqual(['  → refund_order {"orderId":"A1","cents":5}'])
    expect(linesOf({ type: 'tool_completed', ...call, attempt: 1, value: { id: 're_1' } })).toEqual(['  ← refund_order {"id":"re_1"}'])
    expect(linesOf({ type: 'tool_completed', ...call, attempt: 3, value: 'done' })).toEqual(['  ← refund_order (attempt 3) done'])
  })

  it('a chat says that a replayed call was not repeated', () => {
    expect(linesOf({ type: 'tool_completed', ...call, attempt: 1, replayOf: 't_1_0_0' })[0]).toContain('not repeated')
  })

  it('a chat shows the model’s text, but not what was typed there', () => {
    const completed = {
      run: 1,
      turn: 1,
      attempt: 1,
      model: 'm',
      stopReason: 'end_turn' as const,
      usage: NO_USAGE,
      calls: [],
      limits: { maxTurns: 1 },
    }
    expect(linesOf({ type: 'model_completed', ...completed, content: [{ type: 'text', text: 'Hello.\nAgain.' }] })).toEqual([
      'support › Hello.\nAgain.',
    ])
    expect(linesOf({ type: 'model_completed', ...completed, content: [] })).toEqual([])
    expect(linesOf({ type: 'message_received', messageId: 'mine', content: 'hi' })).toEqual([])
    expect(linesOf({ type: 'message_received', messageId: 'other', content: 'hi' })).toEqual(['you › hi'])
  })

  it('a chat shows failed attempts, unknown outcomes and errors', () => {
    const error = { attempt: 2, class: 'WorkerDied', message: 'the process was killed', retryable: true }
    expect(linesOf({ type: 'tool_attempt_failed', ...call, error })[0]).toContain('refund_order, attempt 2: WorkerDied')
    expect(linesOf({ type: 'tool_unknown', ...call, attempt: 1, message: 'reply lost' })[0]).toContain('the outcome is unknown')
    const entered = { code: 'max_turns', reason: 'too many', strategy: 'restart_run' as const }
    expect(linesOf({ type: 'error_entered', ...entered }).join('\n')).toContain('max_turns: too many')
  })

  it('a chat shows the whole command for an unknown outcome or an error, even if the session’s id is long', () => {
    const session = 's'.repeat(200)
    const all = (body: EventBody) => linesOfEvent(event(body), { ...speakers, session }).join('\n')
    const unknown = all({ type: 'tool_unknown', ...call, attempt: 1, message: 'reply lost', ask: true })
    expect(unknown).toContain(SUGGESTIONS.resolveHappened({ session, ...call }))
    expect(unknown).toContain(SUGGESTIONS.resolveNotHappened({ session, ...call }))
    const options = ['selective', 'abandon'] as const
    const entered = { code: 'tool_failed', reason: 'no', strategy: 'selective' } as const
    expect(all({ type: 'error_entered', ...entered, options: [...options] })).toContain(SUGGESTIONS.recoverCalls(session))
  })

  it('a chat shows the question of a tool on one line, with who asks, what it asks for, and how to answer', () => {
    const asked = { id: 'size', from: 'shop', message: 'Which\nsize?\u001b[2J' }
    const asks = (more: object) => ({ attempt: 1, digest: 'd', question: { ...asked, ...more } })
    const [form] = linesOf({
      type: 'answer_requested',
      ...call,
      asks: asks({ schema: { type: 'object', properties: { size: { type: 'string' } } } }),
    })
    expect(form).toMatch(
      /shop asks: Which size\?.* Fields: \{"size":\{"type":"string"\}\} \(\/answer t_1_1_0 \{"action":"accept","content":/,
    )
    const [page] = linesOf({ type: 'answer_requested', ...call, asks: asks({ url: 'https://bank.example/pay' }) })
    expect(page).toMatch(/Open https:\/\/bank\.example\/pay \(\/answer t_1_1_0 \{"action":"accept"\}/)
    // oxlint-disable-next-line no-control-regex -- they must not be there
    for (const line of [form, page]) expect(line).not.toMatch(/[\u0000-\u0008\u000a-\u001a]/)
  })

  it('a chat lets no output of a tool control the terminal', () => {
    const value = '\u001b[2J\u001b]0;owned\u0007line\u0000 one\nline two\u009b31m'
    const [line] = linesOf({ type: 'tool_completed', ...call, attempt: 1, value })
    // oxlint-disable-next-line no-control-regex -- they must not be there
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
    expect(line).toContain('line one line two')
    expect(printable('a\tb\nc\r')).toBe('a\tb\nc')
  })

  it('a chat cuts long results between characters', () => {
    expect(oneLine('🦊'.repeat(500), 10)).toBe(`${'🦊'.repeat(9)}…`)
  })

  it('a chat shows the whole conversation when it resumes a session, with tools by name', () => {
    const row = (seq: number, rest: Pick<MessageRow, 'kind' | 'role' | 'content'>): MessageRow => ({
      messageId: `m${seq}`,
      seq,
      run: 1,
      turn: 1,
      metadata: null,
      by: null,
      at: new Date(0),
      scheduledFor: null,
      ...rest,
    })
    const rows = [
      row(1, { kind: 'user', role: 'user', content: 'Refund A1' }),
      row(2, {
        kind: 'assistant',
        role: 'assistant',
        content: [{ type: 'tool_use', id: 't_1_1_0', name: 'refund_order', input: { orderId: 'A1' } }],
      }),
      row(3, {
        kind: 'tool_results',
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'no such order', is_error: true }],
      }),
      row(4, { kind: 'assistant', role: 'assistant', content: [{ type: 'text', text: 'There is no A1.' }] }),
    ]
    expect(linesOfMessages(rows, 'support')).toEqual([
      'you › Refund A1',
      '  → refund_order {"orderId":"A1"}',
      '  ✗ refund_order no such order',
      'support › There is no A1.',
    ])
  })
})

describe('following runs', () => {
  const run = (seqs: number[], settled: SettledRun['status'] = 'completed') =>
    ({
      sessionId: 's',
      messageId: 'm',
      async *stream() {
        for (const seq of seqs) yield { type: 'event', event: event({ type: 'session_closed', reason: 'idle' }, seq) }
      },
      settled: async () => ({ status: settled }) as SettledRun,
    }) as unknown as RunHandle

  it('following runs shows each event once, even if two messages joined one run', async () => {
    const shown: number[] = []
    const follower = followRuns({ shownUpTo: 2, onEvent: ({ seq }) => shown.push(seq), onSilence() {}, onError() {} })
    const both = [follower.follow(run([2, 3, 4])), follower.follow(run([3, 4, 5], 'failed'))]
    expect(follower.busy()).toBe(true)
    expect(await Promise.all(both)).toEqual(['answered', 'failed'])
    expect(shown).toEqual([3, 4, 5])
    expect(follower.busy()).toBe(false)
  })

  it('following runs reports an error and continues with the next run', async () => {
    const errors: unknown[] = []
    const broken = {
      // oxlint-disable-next-line require-yield -- it fails before it has anything to yield
      async *stream() {
        throw new Error('connection lost')
      },
    } as unknown as RunHandle
    const follower = followRuns({ shownUpTo: 0, onEvent() {}, onSilence() {}, onError: (error) => errors.push(error) })
    expect(await Promise.all([follower.follow(broken), follower.follow(run([1]))])).toEqual(['failed', 'answered'])
    expect(errors).toHaveLength(1)
  })
})

describe('the worker module', () => {
  it('the worker module is found by its path', async () => {
    await writeFile(join(folder, 'agents.ts'), '')
    expect(await findModule(join(folder, 'agents.ts'))).toBe(join(folder, 'agents.ts'))
  })

  it('a worker module that does not exist is refused, and the error suggests the one that was probably meant', async () => {
    await writeFile(join(folder, 'agents.ts'), '')
    await expect(findModule(join(folder, 'agents.js'))).rejects.toThrow(/does not exist: did you mean .*agents\.ts\?/)
    await expect(findModule(join(folder, 'other.js'))).rejects.toMatchObject({ code: 'module_not_found' })
    await expect(findModule(folder)).rejects.toThrow(/is not a file/)
  })
})

describe('the output', () => {
  it('the output with --json is one object per line: executors, orchestrator and ready, nothing else', () => {
    const written: string[] = []
    vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => written.push(String(chunk)) > 0)
    const announcer = announceAsJson()
    announcer.worker({ event: 'orchestrator_started', pid: 6 })
    announcer.worker({ event: 'orchestrator_ready', pid: 6 })
    announcer.worker({ event: 'worker_started', pid: 7 })
    announcer.worker({ event: 'worker_ready', pid: 7 })
    announcer.worker({ event: 'worker_died', pid: 7, code: null, signal: 'SIGKILL', at: 1, calls: [] })
    announcer.worker({ event: 'call_resumed', pid: 8, sessionId: 's', call: 'c', ms: 3 })
    announcer.worker({ event: 'orchestrator_died', pid: 6, code: 1, signal: null, at: 1 })
    announcer.ready({ temporalAddress: 'a', namespace: 'n', taskQueue: 'q' }, 9)
    announcer.stopping()
    expect(written.map((line) => JSON.parse(line))).toEqual([
      { event: 'orchestrator_started', pid: 6 },
      { event: 'worker_started', pid: 7 },
      { event: 'worker_ready', pid: 7 },
      { event: 'worker_died', pid: 7, code: null, signal: 'SIGKILL' },
      { event: 'orchestrator_died', pid: 6, code: 1, signal: null },
      { event: 'ready', temporalAddress: 'a', namespace: 'n', taskQueue: 'q', orchestratorPid: 9 },
    ])
  })

  it('the output for an error is its code, its message and its cause, and the stack only with PAWL_DEBUG', () => {
    vi.stubEnv('PAWL_DEBUG', '')
    const error = new CliError('no_agents', 'Export one.', { cause: new Error('broken import') })
    expect(describeError(error)).toBe('no_agents: Export one.\n  caused by: broken import')
    const wrapped = new CliError('not_waiting', 'Decided before.', {
      cause: new Error('Update failed', { cause: new Error('Decided before.') }),
    })
    expect(describeError(wrapped)).toBe('not_waiting: Decided before.')
    const missing = new SessionNotFoundError('s', {
      cause: new WorkflowNotFoundError('workflow not found for ID: pawl:s', 'pawl:s', undefined),
    })
    expect(describeError(missing)).not.toContain('caused by')
    const refused = new Error('The session refused the request. See the details of this failure.')
    expect(describeError(new CliError('not_waiting', 'Decided before.', { cause: refused }))).toBe('not_waiting: Decided before.')
    const failed = (strategy: 'continue_run' | 'manual') =>
      describeError(new RunFailedError({ code: 'max_turns', reason: 'Too many turns.', strategy }))
    expect(failed('continue_run')).toContain('or use `pawl recover <session> --strategy continue_run`.')
    expect(failed('manual')).toContain('with one of the strategies that `pawl status <session>` lists.')
    expect(describeError(new TypeError('x is not a function'))).toContain('internal_error: x is not a function')
    vi.stubEnv('PAWL_DEBUG', '1')
    expect(describeError(error)).toContain('cli.test.ts')
  })
})
