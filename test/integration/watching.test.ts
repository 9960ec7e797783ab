// Watching a session: every event once and in order, and what the model is saying, until it is recorded.
import { ModelError } from 'pawl'
import type { ModelCallContext, ModelRequest } from 'pawl'
import type { RunHandle, SessionHandle, WatchItem } from 'pawl/client'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 20_000 }

let here: Deployment
let player: Stage
let store: pg.Client
const watched = new Set<string>()

beforeAll(async () => {
  here = await deploy()
  player = stage({ retry: { maxRetries: 2, baseDelay: 10 } })
  const silent = { debug: () => undefined, info: () => undefined, error: () => undefined }
  const warn = (about: object, message?: string): void => void warned.push({ about, message })
  await here.startWorker({ agents: [player.agent], logger: { ...silent, warn } })
  store = new pg.Client(here.stack.databaseUrl)
  await store.connect()
})
afterAll(async () => {
  await store?.end()
  await here?.stop()
})

/** Warnings of the worker. */
const warned: { about: object; message: string | undefined }[] = []

const say = (ctx: ModelCallContext, text: string): void => ctx.onDelta({ type: 'text', index: 0, text })

/** Watches from `after` on, until `end` is called. */
function watch(session: SessionHandle, after = 0) {
  watched.add(session.id)
  const seen: WatchItem[] = []
  const stop = new AbortController()
  const done = (async () => {
    for await (const item of session.watch({ after, signal: stop.signal })) seen.push(item)
  })()
  return {
    seen,
    done,
    /** The text of the answer in progress, as a reader that obeys resets sees it. */
    said: () => saidIn(seen),
    async end() {
      stop.abort()
      await done
      return seen
    },
  }
}

function saidIn(items: readonly WatchItem[]): string {
  let text = ''
  for (const item of items) {
    if (item.type === 'reset' || (item.type === 'event' && item.event.type === 'model_completed')) text = ''
    if (item.type === 'delta' && item.delta.type === 'text') text += item.delta.text
  }
  return text
}

const types = (items: readonly WatchItem[]): string[] => items.map((item) => (item.type === 'event' ? item.event.type : item.type))
const seqs = (items: readonly WatchItem[]): number[] => items.flatMap((item) => (item.type === 'event' ? [item.event.seq] : []))
const upTo = (last: number): number[] => Array.from({ length: last }, (_, n) => n + 1)

/** A model that says each word on request. */
function speaker(...words: string[]) {
  const gates = words.map(() => gate())
  return {
    async model(_: ModelRequest, ctx: ModelCallContext) {
      for (const [at, word] of words.entries()) {
        await gates[at]?.pass(ctx.signal)
        say(ctx, word)
      }
      return words.join('')
    },
    say: (at: number) => gates[at]?.open(),
    asked: () => gates[0]?.reached,
  }
}

describe('a watcher', () => {
  it('a watcher sees what the model is saying, then the recorded message instead, and every event once, in order', async () => {
    const mouth = speaker('one ', 'two ', 'three')
    const { session } = player.play(here.pawl, { model: mouth.model })
    const watcher = watch(session)
    const run = await session.send('count')
    mouth.say(0)
    await until('the first word is seen', () => watcher.said() === 'one ')
    mouth.say(1)
    await until('the second word is seen', () => watcher.said() === 'one two ')
    mouth.say(2)
    await run.result(TIMEOUT)
    await until('the end is seen', () => types(watcher.seen).includes('run_completed'))
    await until('the status is seen', () => watcher.seen.findLast(({ type }) => type === 'status'))
    const seen = await watcher.end()
    const { seq } = await session.state()
    expect(seqs(seen)).toEqual(upTo(seq))
    const between = types(seen)
    expect(between.indexOf('delta')).toBeGreaterThan(between.indexOf('turn_started'))
    expect(between.lastIndexOf('delta')).toBeLessThan(between.indexOf('model_completed'))
    expect(between).not.toContain('reset')
    expect(seen).toContainEqual({ type: 'status', status: 'running' })
    expect(seen.findLast(({ type }) => type === 'status')).toEqual({ type: 'status', status: 'idle' })
  })

  it('a watcher that joins in mid-answer sees the answer from its first word', async () => {
    const mouth = speaker('one ', 'two ', 'three ', 'four')
    const { session } = player.play(here.pawl, { model: mouth.model })
    const early = watch(session)
    const run = await session.send('count')
    mouth.say(0)
    mouth.say(1)
    await until('two words are seen', () => early.said() === 'one two ')
    const { seq } = await session.state()
    const late = watch(session, seq)
    await until('the late one sees them', () => late.said() === 'one two ')
    mouth.say(2)
    await until('both see the third', () => early.said() === late.said() && late.said() === 'one two three ')
    mouth.say(3)
    await run.result(TIMEOUT)
    await until('the late one sees the end', () => types(late.seen).includes('run_completed'))
    expect(seqs(await late.end())[0]).toBe(seq + 1)
    const after = watch(session, (await session.state()).seq)
    await until('it has caught up', () => after.seen.length > 0)
    expect(await after.end()).toEqual([{ type: 'status', status: 'idle' }])
    await early.end()
  })

  it('a watcher receives a reset that voids what a failed attempt has said', async () => {
    const heard = gate()
    const { session } = player.play(here.pawl, {
      async model(_, ctx) {
        if (ctx.attempt === 1) {
          say(ctx, 'I was about to')
          await heard.pass(ctx.signal)
          throw new ModelError('overloaded', 'overloaded', { retryable: true })
        }
        say(ctx, 'here ')
        say(ctx, 'it is')
        return 'here it is'
      },
    })
    const watcher = watch(session)
    const run = await session.send('go on')
    await until('the first attempt is seen', () => watcher.said() === 'I was about to')
    heard.open()
    expect((await run.result(TIMEOUT)).text).toBe('here it is')
    await until('the end is seen', () => types(watcher.seen).includes('run_completed'))
    const seen = await watcher.end()
    expect(seen.filter(({ type }) => type === 'reset')).toEqual([{ type: 'reset', run: 1, turn: 1, attempt: 1 }])
    expect('here it is').toContain(saidIn(seen.filter((item) => item.type === 'delta' && item.attempt === 2)))
  })

  it('a watcher receives a reset for a run that is interrupted', async () => {
    const mouth = speaker('a long ', 'story')
    const { session } = player.play(here.pawl, { model: mouth.model })
    const watcher = watch(session)
    const run = await session.send('tell me')
    mouth.say(0)
    await until('it begins', () => watcher.said() === 'a long ')
    await session.interrupt()
    expect((await run.settled(TIMEOUT)).status).toBe('interrupted')
    await until('the end is seen', () => types(watcher.seen).includes('run_interrupted'))
    const seen = await watcher.end()
    const after = types(seen)
    expect(after.indexOf('reset')).toBe(after.indexOf('run_interrupted') - 1)
  })

  it('a watcher sees the arguments of a tool call as they arrive, with the name of the tool, and thinking', async () => {
    const heard = gate()
    const { session } = player.play(here.pawl, {
      async model(request, ctx) {
        if (request.turn > 1) return 'done'
        ctx.onDelta({ type: 'thinking', index: 0, thinking: 'hm' })
        ctx.onDelta({ type: 'tool_input', index: 1, partialJson: '', name: 'look' })
        ctx.onDelta({ type: 'tool_input', index: 1, partialJson: '{"what":' })
        await heard.pass(ctx.signal)
        return [use('look', 'here')]
      },
      look: () => 'seen',
    })
    const watcher = watch(session)
    const run = await session.send('look')
    const deltas = () => watcher.seen.flatMap((item) => (item.type === 'delta' && item.turn === 1 ? [item.delta] : []))
    await until('the arguments are seen', () => deltas().some((delta) => delta.type === 'tool_input' && delta.partialJson !== ''))
    expect(deltas()[0]).toEqual({ type: 'thinking', index: 0, thinking: 'hm' })
    expect(deltas()[1]).toMatchObject({ type: 'tool_input', index: 1, name: 'look' })
    heard.open()
    await run.result(TIMEOUT)
    await watcher.end()
  })

  it('a watcher does not see malformed deltas, which are logged once, and the call continues', async () => {
    const heard = gate()
    const text = 'NUL \0, half a pair \ud83d'
    const { session } = player.play(here.pawl, {
      async model(_, ctx) {
        const odd = [undefined, null, 'text', { type: 'text' }, { type: 'text', index: -1, text: 'x' }, { type: 'text', index: 0, text: 7 }]
        for (const one of odd) ctx.onDelta(one as never)
        // Empty deltas are dropped without a warning.
        ctx.onDelta({ type: 'text', index: 0, text: '' })
        ctx.onDelta({ type: 'text', index: 0, text, extra: true } as never)
        await heard.pass(ctx.signal)
        return 'fine'
      },
    })
    const watcher = watch(session)
    const run = await session.send('go')
    await until('what is a piece is seen', () => watcher.said() === text)
    heard.open()
    expect((await run.result(TIMEOUT)).text).toBe('fine')
    const deltas = (await watcher.end()).flatMap((item) => (item.type === 'delta' ? [item.delta] : []))
    expect(deltas).toEqual([{ type: 'text', index: 0, text }])
    const told = warned.filter(({ about }) => (about as { session?: string }).session === session.id)
    expect(told).toMatchObject([{ about: { model: 'scripted' }, message: expect.stringContaining('onDelta') }])
  })

  it('a watcher that asks for the next item late misses no event', async () => {
    const { session } = player.play(here.pawl, { model: (_, ctx) => (say(ctx, 'quick'), 'quick') })
    const iterator = session.watch()[Symbol.asyncIterator]()
    const run = await session.send('go')
    const first = await iterator.next()
    expect(first.value).toMatchObject({ type: 'event', event: { seq: 1 } })
    await run.result(TIMEOUT)
    await (await session.send('again')).result(TIMEOUT)
    const { seq } = await session.state()
    const seen: WatchItem[] = [first.value as WatchItem]
    while (seqs(seen).at(-1) !== seq) seen.push((await iterator.next()).value as WatchItem)
    await iterator.return?.()
    expect(seqs(seen)).toEqual(upTo(seq))
  })

  it('a watcher of one run sees what belongs to the run, until it ends', async () => {
    const mouth = speaker('the ', 'answer')
    const { session } = player.play(here.pawl, { model: mouth.model })
    const run: RunHandle = await session.send('ask')
    mouth.say(0)
    const seen: WatchItem[] = []
    for await (const item of run.stream()) {
      seen.push(item)
      if (item.type === 'delta') mouth.say(1)
    }
    expect(types(seen).at(-1)).toBe('run_completed')
    expect(types(seen)).not.toContain('status')
    expect(saidIn(seen.slice(0, types(seen).indexOf('model_completed')))).toMatch(/^the /)
  })

  it('a watcher of a session ends when the session closes', async () => {
    const { session } = player.play(here.pawl, { model: () => 'bye' })
    await (await session.send('go')).result(TIMEOUT)
    const watcher = watch(session)
    await session.close()
    await watcher.done
    expect(types(watcher.seen)).toContain('session_closed')
    expect(watcher.seen.at(-1)).toEqual({ type: 'status', status: 'closed' })
  })

  it('a watcher sees events even without Postgres', async () => {
    const { session } = player.play(here.pawl, { model: () => 'fine' })
    const without = await here.connect({ postgres: 'postgres://nobody@127.0.0.1:1/none' })
    const watcher = watch(without.session(session.id))
    await (await session.send('go')).result(TIMEOUT)
    await until('the end is seen', () => types(watcher.seen).includes('run_completed'))
    const seen = await watcher.end()
    expect(new Set(seen.map(({ type }) => type))).toEqual(new Set(['event']))
    expect(seqs(seen)).toEqual(upTo(seqs(seen).length))
  })

  it('a watcher leaves no deltas in the store', async () => {
    await until('the deltas are deleted', async () => {
      const { rows } = await store.query('select 1 from pawl.deltas where session_id = any($1)', [[...watched]])
      return rows.length === 0
    })
  })
})
