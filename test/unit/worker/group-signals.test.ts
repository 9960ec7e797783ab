// Signals to all processes of a worker, in a process of its own: user code that exits on them does so at the end only.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'

const MODULE = new URL('../../../dist/worker/group-signals.js', import.meta.url).href

/** Runs user code in a process that ignores the signals, sends it each of them, and lets it end. Returns what it prints, and its exit code. */
async function processWith(userCode: string): Promise<[string, unknown]> {
  const program = `
    import { ignoreGroupSignals } from ${JSON.stringify(MODULE)}
    const tellListeners = ignoreGroupSignals()
    ${userCode}
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.kill(process.pid, signal)
    setTimeout(async () => {
      console.log('its calls have ended')
      await tellListeners()
      console.log('it ends')
      process.exit(0)
    }, 100)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [printed, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[unknown]>])
  return [printed, code]
}

describe('a process of a worker that gets the signals of its group', () => {
  it('a process of a worker that gets the signals of its group ignores them', async () => {
    expect(await processWith('')).toEqual(['its calls have ended\nit ends\n', 0])
  })

  it('user code that exits on SIGTERM in a worker’s process does so only once its calls have ended', async () => {
    const exits = `for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, (name) => { console.log(name); process.exit(3) })`
    expect(await processWith(exits)).toEqual(['its calls have ended\nSIGTERM\n', 3])
  })

  it('a process of a worker that gets the signals of its group survives them even if user code removes all listeners', async () => {
    const removes = `for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeAllListeners(signal)`
    expect(await processWith(removes)).toEqual(['its calls have ended\nit ends\n', 0])
  })

  it('a process of a worker that gets the signals of its group passes other events and signals on', async () => {
    const other = `process.once('SIGUSR2', () => console.log('heard')); process.kill(process.pid, 'SIGUSR2')`
    expect(await processWith(other)).toEqual(['heard\nits calls have ended\nit ends\n', 0])
  })
})
