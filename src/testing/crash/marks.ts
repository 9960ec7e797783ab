// The folder through which a crash test and its worker processes communicate planned kills and reached places.
// It uses files instead of messages, because they persist even if the process that wrote them is killed at that very place.
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Mark, placeBelow } from './boundaries.ts'
import { CrashTestError } from './errors.ts'

/** The current conversation, and where a worker process must die. */
export interface DeathPlan {
  conversation: number
  sessionId: string
  /** Places of boundaries: one process dies at the first, then one at the second. */
  killAt?: readonly string[]
}

/** An agent that the worker module serves. */
export interface ServedAgent {
  name: string
  /** The longest timeout of its tools, in milliseconds. */
  slowestMs: number
}

const PLAN = 'plan.json'
const AGENTS = 'agents.json'

/** The test's side. */
export interface MarkReader {
  /** Sets the plan from now on. The change is atomic, because a process may be reading. */
  setPlan(plan: DeathPlan): void
  /** The places that the conversation has reached so far. */
  marks(conversation: number): Promise<Mark[]>
  /** How many processes were killed as planned. */
  killed(conversation: number): number
  /** The agents that the worker module serves, once a process has loaded it. */
  agents(): Promise<ServedAgent[]>
}

/** Reads the folder. */
export function markReader(folder: string): MarkReader {
  return {
    setPlan(plan) {
      writeFileSync(join(folder, 'next'), JSON.stringify(plan))
      renameSync(join(folder, 'next'), join(folder, PLAN))
    },
    async marks(conversation) {
      // The file does not exist until the first place is reached. A missing folder is an error.
      const text = await readFile(join(folder, marksFile(conversation)), 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT' && existsSync(folder)) return ''
        throw new CrashTestError('workers_failed', `The crash test's folder ${folder} cannot be read. Was it removed? (${error.message})`, {
          cause: error,
        })
      })
      return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Mark]))
    },
    killed: (conversation) => killsIn(folder, conversation),
    agents: async () => JSON.parse(await readFile(join(folder, AGENTS), 'utf8')) as ServedAgent[],
  }
}

/** A worker process's side. It is synchronous, so that nothing happens between reaching a place and dying there. */
export interface MarkWriter {
  writeAgents(agents: readonly ServedAgent[]): void
  /** The session of the current conversation. */
  session(): string | undefined
  /** Records that the session reached a place. Does not return if the process must die there. */
  reach(sessionId: string, mark: Mark): void
  /** The next number for that name in the conversation, across all processes. */
  next(name: string): number
}

/** Writes into the folder. */
export function markWriter(folder: string): MarkWriter {
  const plan = (): DeathPlan | undefined => {
    try {
      return JSON.parse(readFileSync(join(folder, PLAN), 'utf8')) as DeathPlan
    } catch {
      // No conversation has begun yet.
      return undefined
    }
  }
  /** Creates the file exclusively: only one process succeeds. */
  const claim = (name: string): boolean => {
    try {
      closeSync(openSync(join(folder, name), 'wx'))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    }
  }
  return {
    writeAgents: (agents) => writeFileSync(join(folder, AGENTS), JSON.stringify(agents)),
    session: () => plan()?.sessionId,
    reach(sessionId, mark) {
      const current = plan()
      const depth = current && depthBelow(current.sessionId, sessionId)
      if (!current || depth === undefined) return
      const id = placeBelow(depth, mark.id)
      appendFileSync(join(folder, marksFile(current.conversation)), `${JSON.stringify({ ...mark, id })}\n`)
      if (!current.killAt?.includes(id)) return
      const kills = killsIn(folder, current.conversation)
      if (current.killAt[kills] === id && claim(killFile(current.conversation, kills))) process.kill(process.pid, 'SIGKILL')
    },
    next(name) {
      const conversation = plan()?.conversation ?? 0
      let number = 1
      while (!claim(`${name}-${conversation}-${number}`)) number++
      return number
    },
  }
}

/** How many sessions are between the conversation's and this one, which answers an agent call; undefined if it is not one of its tree. */
function depthBelow(root: string, sessionId: string): number | undefined {
  if (sessionId === root) return 0
  return sessionId.startsWith(`${root}/`) ? sessionId.slice(root.length).split('/').length - 1 : undefined
}

const marksFile = (conversation: number): string => `marks-${conversation}`
const killFile = (conversation: number, kills: number): string => `killed-${conversation}-${kills}`

function killsIn(folder: string, conversation: number): number {
  let kills = 0
  while (existsSync(join(folder, killFile(conversation, kills)))) kills++
  return kills
}
