// The options of `npm run bench -- turn`.
import { optionReader } from '../options.ts'
import { type Effect, EFFECTS } from './work.ts'

export interface TurnOptions {
  output: 'table' | 'json'
  /** Turns of a measured run. */
  turns: number
  /** Runs of each side under one set-up. */
  rounds: number
  /** Bytes of a tool's result. */
  resultBytes: number
  /** The effects of pawl's tool, one after another. */
  effects: Effect[]
  /** Turns of the long session whose history is measured. */
  historyTurns: number
}

const HELP = `npm run bench -- turn [--json] [--turns 100] [--rounds 5] [--bytes 1000] [--effect read,idempotent,external] [--history-turns 1000]`

const OPTIONS = {
  json: { type: 'boolean', default: false },
  turns: { type: 'string', default: '100' },
  rounds: { type: 'string', default: '5' },
  bytes: { type: 'string', default: '1000' },
  effect: { type: 'string', default: EFFECTS.join(',') },
  'history-turns': { type: 'string', default: '1000' },
} as const
const { parse, positive, refuse } = optionReader(HELP)

/** Reads the options, or says what they are and ends the process. */
export function readTurnOptions(args: string[]): TurnOptions {
  const { json, turns, rounds, bytes, effect, 'history-turns': historyTurns } = parse(args, OPTIONS)
  return {
    output: json ? 'json' : 'table',
    turns: positive('turns', turns),
    rounds: positive('rounds', rounds),
    resultBytes: positive('bytes', bytes),
    effects: effect
      .split(',')
      .map((name) => EFFECTS.find((one) => one === name) ?? refuse(`--effect takes ${EFFECTS.join(', ')}, not "${name}".`)),
    historyTurns: Math.max(positive('history-turns', historyTurns), 1_000),
  }
}
