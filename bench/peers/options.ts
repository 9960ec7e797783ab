// The options of `npm run bench -- peers`.
import { fileURLToPath } from 'node:url'
import { optionReader } from '../options.ts'
import { type Row, ROWS } from './rows.ts'

export interface PeersOptions {
  output: 'table' | 'json'
  rows: readonly Row[]
  /** Turns of a measured conversation. */
  turns: number
  /** Conversations of each row. */
  rounds: number
  /** Kills of each row's worker. */
  kills: number
  /** Bytes of a tool's result. */
  resultBytes: number
  /** Where the plot is written. */
  plot: string | undefined
}

const PEERS = [...new Set(ROWS.map(({ peer }) => peer))]
const HELP =
  `npm run bench -- peers [--json] [--peers ${PEERS.join(',')}] [--turns 100] [--rounds 3] [--kills 3] [--bytes 1000] [--plot <file>]\n` +
  'With all peers, the plot is written to docs/peers.svg.'

const OPTIONS = {
  json: { type: 'boolean', default: false },
  peers: { type: 'string' },
  turns: { type: 'string', default: '100' },
  rounds: { type: 'string', default: '3' },
  kills: { type: 'string', default: '3' },
  bytes: { type: 'string', default: '1000' },
  plot: { type: 'string' },
} as const
const { parse, positive, refuse } = optionReader(HELP)

/** Reads the options, or says what they are and ends the process. */
export function readPeersOptions(args: string[]): PeersOptions {
  const { json, peers, turns, rounds, kills, bytes, plot } = parse(args, OPTIONS)
  const names = peers?.split(',') ?? PEERS
  const unknown = names.find((name) => !PEERS.includes(name))
  if (unknown !== undefined) refuse(`There is no peer "${unknown}": choose from ${PEERS.join(', ')}.`)
  return {
    output: json ? 'json' : 'table',
    rows: ROWS.filter(({ peer }) => names.includes(peer)),
    turns: positive('turns', turns),
    rounds: positive('rounds', rounds),
    kills: positive('kills', kills),
    resultBytes: positive('bytes', bytes),
    plot: plot ?? (peers === undefined ? fileURLToPath(new URL('../../docs/peers.svg', import.meta.url)) : undefined),
  }
}
