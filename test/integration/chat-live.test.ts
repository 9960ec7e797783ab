// `pawl chat` at a terminal: it shows an answer while the model streams it, and exactly once when the answer is complete.
import { spawn } from 'node:child_process'
import { ModelError } from 'pawl'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stripVTControlCharacters } from 'node:util'
import { type Deployment, deploy } from '../support/deployment.ts'
import { stage, type Scene } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { MAIN } from './cli/processes.ts'

const COLUMNS = 60

let here: Deployment
/** Ends the chats and models that failed tests leave running. */
const ends: (() => void)[] = []
const player = stage({ retry: { maxRetries: 1, baseDelay: 10 } })

beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  for (const end of ends) end()
  await here?.stop()
})

/** A chat that plays a scene, in a terminal of its own. */
function chat(scene: Scene) {
  const { id } = player.play(here.pawl, scene)
  const { temporalAddress: TEMPORAL_ADDRESS, databaseUrl: DATABASE_URL } = here.stack
  const command = `stty cols ${COLUMNS} rows 40; '${process.execPath}' '${MAIN}' chat ${player.agent.name} --session ${id} --task-queue ${here.taskQueue}`
  const child = spawn('script', ['-qfec', command, '/dev/null'], {
    env: { ...process.env, TEMPORAL_ADDRESS, DATABASE_URL, TERM: 'xterm' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  ends.push(() => child.kill())
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const ended = new Promise<void>((resolve) => void child.on('exit', () => resolve()))
  return {
    id,
    type: (text: string) => void child.stdin.write(text),
    screen: () => screenOf(output),
    async leave() {
      child.stdin.write('/exit\n')
      await ended
      return screenOf(output)
    },
  }
}

/** The rows of the terminal after this output. Only the few escape sequences that a chat uses are interpreted. */
function screenOf(output: string): string[] {
  const rows: string[] = ['']
  let [row, column] = [0, 0]
  // oxlint-disable-next-line no-control-regex -- sequences begin with an escape character
  for (const [token] of output.matchAll(/\u001b\[(\d*)(?:;\d*)*([A-Za-z])|\u001b.|\r|\n|[^\u001b\r\n]+/gu)) {
    const [, count = '', what] = /^\u001b\[(\d*).*([A-Za-z])$/u.exec(token) ?? []
    if (token === '\r') column = 0
    else if (token === '\n') {
      row += 1
      rows[row] ??= ''
    } else if (what === 'A') row = Math.max(0, row - Number(count || 1))
    else if (what === 'G') column = Math.max(0, Number(count || 1) - 1)
    else if (what === 'C') column += Number(count || 1)
    else if (what === 'J') {
      rows.splice(row + 1)
      rows[row] = (rows[row] ?? '').slice(0, column)
    } else if (what === 'K') rows[row] = (rows[row] ?? '').slice(0, column)
    else if (what === undefined && !token.startsWith('\u001b')) {
      const text = stripVTControlCharacters(token)
      rows[row] = (rows[row] ?? '').slice(0, column).padEnd(column) + text + (rows[row] ?? '').slice(column + text.length)
      column += text.length
    }
  }
  return rows.map((line) => line.trimEnd())
}

const spoken = (rows: readonly string[]): string => rows.slice(rows.findIndex((row) => row.includes(' › once'))).join(' ')

describe('a chat at a terminal', () => {
  it('a chat at a terminal shows an answer while it is streamed, row by row, and exactly once in the end', async () => {
    const gates = [gate(), gate()]
    ends.push(...gates.map(({ open }) => open))
    const words = 'once upon a time there was an agent that never lost a word, whatever became of the processes that spoke for it.'
    const [first, second] = [words.slice(0, 14), words.slice(14)]
    const talk = chat({
      async model(_, ctx) {
        ctx.onDelta({ type: 'text', index: 0, text: first })
        await gates[0]?.pass(ctx.signal)
        ctx.onDelta({ type: 'text', index: 0, text: second })
        await gates[1]?.pass(ctx.signal)
        return words
      },
    })
    await until('it is ready', () => talk.screen().some((row) => row.includes('/help lists')))
    talk.type('tell me\n')
    await until('the first words are there', () => talk.screen().some((row) => row.endsWith(first.trim())))
    gates[0]?.open()
    await until('the last ones are there', () => spoken(talk.screen()).includes('spoke for it.'))
    gates[1]?.open()
    await until('the session is idle', async () => (await here.pawl.session(talk.id).state()).status === 'idle')
    const rows = await talk.leave()
    expect(spoken(rows)).toContain(words)
    expect(rows.filter((row) => row.includes('once upon'))).toHaveLength(1)
    expect(Math.max(...rows.filter((row) => words.includes(row.replace(/^.* › /, ''))).map((row) => row.length))).toBeLessThan(COLUMNS)
  })

  it('a terminal chat reports that a partly shown attempt broke off, and shows the next attempt', async () => {
    const heard = gate()
    ends.push(heard.open)
    const long = 'once more and again and again and again and again and again and again and again, so it went'
    const talk = chat({
      async model(_, ctx) {
        if (ctx.attempt > 1) return 'once is enough'
        ctx.onDelta({ type: 'text', index: 0, text: long })
        await heard.pass(ctx.signal)
        throw new ModelError('overloaded', 'overloaded', { retryable: true })
      },
    })
    await until('it is ready', () => talk.screen().some((row) => row.includes('/help lists')))
    talk.type('tell me\n')
    await until('the first attempt is seen', () => talk.screen().some((row) => row.includes('so it went')))
    heard.open()
    await until('the second one is seen', () => talk.screen().some((row) => row.includes('once is enough')))
    const rows = await talk.leave()
    expect(rows.some((row) => row.includes('broke off'))).toBe(true)
    expect(rows.filter((row) => row.includes('once is enough'))).toHaveLength(1)
  })
})
