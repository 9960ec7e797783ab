// What the programs of all peers share: the protocol with the benchmark, the scripted model, and the tool.
// Plain JavaScript, so that no loader counts towards a peer's time.
import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

/** Addresses, folder and variant: see `Setting` in setting.ts. */
export const setting = JSON.parse(process.env.BENCH_SETTING)

/** How long the call that the benchmark kills would last without the kill. */
const HOLD_MS = 600_000

/**
 * Carries out conversations as standard input names them, one JSON per line, until it ends. A conversation is `{ id, turns, hold? }`:
 * `hold` is the turn whose tool call lasts until its process is killed.
 */
export async function serve(converse, close) {
  say({ ready: true })
  for await (const line of createInterface({ input: process.stdin })) {
    const conversation = JSON.parse(line)
    void converse(conversation).then((more) => say({ done: conversation.id, ...more }))
  }
  await close()
  process.exit(0)
}

/**
 * The scripted model: the input of the call that the given turn requests, or undefined if the conversation is over. `conversation` is what
 * the user's message says.
 */
export function ask(conversation, turn) {
  mark(conversation.id, turn, 'model')
  return turn > conversation.turns ? undefined : { id: conversation.id, turn, hold: turn === conversation.hold }
}

/** The tool: has an effect, which it does not repeat by itself, and answers with filler text that does not compress. */
export async function fill({ id, turn, hold }) {
  mark(id, turn, 'effect')
  if (hold && effectsOf(id, turn) === 1) await sleep(HOLD_MS)
  return text()
}

/** Whether the effect of this call has happened, as a service that can be asked would say. */
export const hasHappened = ({ id, turn }) => effectsOf(id, turn) > 0

/** What the tool answers. */
export const text = () =>
  randomBytes(Math.ceil((setting.resultBytes * 3) / 4))
    .toString('base64')
    .slice(0, setting.resultBytes)

/** The conversation is over, and all of it is stored. Only peers that store it after the last model call has begun need it. */
export const settled = (id) => mark(id, 0, 'settled')

function mark(id, turn, what) {
  appendFileSync(fileOf(id), `${JSON.stringify({ turn, what, at: Number(process.hrtime.bigint()) / 1e6, pid: process.pid })}\n`)
}

function effectsOf(id, turn) {
  if (!existsSync(fileOf(id))) return 0
  const marks = readFileSync(fileOf(id), 'utf8').split('\n').slice(0, -1)
  return marks.map((line) => JSON.parse(line)).filter((one) => one.what === 'effect' && one.turn === turn).length
}

const fileOf = (id) => join(setting.folder, `${id}.marks`)

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)
