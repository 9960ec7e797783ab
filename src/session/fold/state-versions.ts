// Reads a stored state: checks it and upgrades it to the version that this code folds.
import { PawlError } from '../errors.ts'
import { isObject, type Json, type JsonObject } from '../json.ts'
import type { SessionState } from '../state.ts'

/** The state version that this code writes; `v` of `SessionState`. */
export const STATE_VERSION = 1

/** Upgrades from each version to the next. Never edited after a release. */
const UPGRADES: Readonly<Record<number, Upgrade>> = {}

/** Upgrades a state to the next version. */
export type Upgrade = (state: JsonObject) => JsonObject

/** A stored state cannot be used. Code `unreadable_state`. */
export class UnreadableState extends PawlError {
  override readonly name = 'UnreadableState'

  constructor(why: string, options?: { cause?: unknown }) {
    super('unreadable_state', why, options)
  }
}

/**
 * The state in `text`, written with `version`. `accepted` is usually stored elsewhere, and is empty unless the text contains it.
 * @throws UnreadableState.
 */
export function readState(
  text: string,
  version: number,
  known: { upgrades: Readonly<Record<number, Upgrade>>; version: number } = KNOWN,
): SessionState {
  let state = parsed(text)
  if (!Number.isSafeInteger(version) || version > known.version) {
    throw new UnreadableState(`its version ${version} is newer than ${known.version}, the newest that this release knows`)
  }
  for (let from = version; from < known.version; from++) {
    const upgrade = known.upgrades[from]
    if (!upgrade) throw new UnreadableState(`version ${from} is unknown`)
    state = upgrade(state)
  }
  const wrong = Object.entries(SHAPE).find(([name, fits]) => !fits(state[name]))
  if (wrong) throw new UnreadableState(`its ${wrong[0]} is invalid`)
  return { ...(state as unknown as SessionState), accepted: Array.isArray(state.accepted) ? (state.accepted as string[]) : [] }
}

const KNOWN = { upgrades: UPGRADES, version: STATE_VERSION }

function parsed(text: string): JsonObject {
  let state: Json
  try {
    state = JSON.parse(text) as Json
  } catch (cause) {
    throw new UnreadableState('it is not JSON', { cause })
  }
  if (!isObject(state)) throw new UnreadableState('it is not an object')
  return state
}

type Fits = (value: Json | undefined) => boolean

const isText: Fits = (value) => typeof value === 'string'
const isCount: Fits = (value) => Number.isSafeInteger(value) && Number(value) >= 0

const isPlan: Fits = (value) => isObject(value) && Array.isArray(value.steps)
const isMemory: Fits = (value) => isObject(value) && Array.isArray(value.blocks)

/** Checks of the members that the fold relies on. */
const SHAPE: Readonly<Record<string, Fits>> = {
  sessionId: isText,
  agent: isText,
  epoch: isText,
  tags: Array.isArray,
  status: (value) => typeof value === 'string' && ['idle', 'running', 'waiting', 'error', 'closed'].includes(value),
  seq: isCount,
  createdAt: Number.isFinite,
  run: isCount,
  current: (value) =>
    value === null ||
    (isObject(value) && Array.isArray(value.calls) && Array.isArray(value.taken) && isCount(value.takenBytes) && isCount(value.run)),
  error: (value) => value === null || isObject(value),
  paused: (value) => value === undefined || (isObject(value) && Number.isFinite(value.at)),
  plan: (value) => value === undefined || (isObject(value) && isCount(value.version) && (value.current === null || isPlan(value.current))),
  memory: (value) =>
    value === undefined || (isObject(value) && isCount(value.version) && (value.current === null || isMemory(value.current))),
  hooksDue: (value) => value === undefined || (isObject(value) && isCount(value.run) && isCount(value.turn)),
  inbox: Array.isArray,
  inboxBytes: isCount,
  keys: isObject,
  unknown: isObject,
  turns: isCount,
  usage: (value) => isObject(value) && Object.values(value).every(Number.isFinite),
  checkpoint: (value) => value === undefined || (isObject(value) && isCount(value.version)),
}
