// `npm run demo -- --console`: starts the showcase, prints the address of its console, and leaves it up until Ctrl-C.
import { once } from 'node:events'
import { startStack } from 'pawl/testing'
import { type Showcase, startShowcase } from './showcase.ts'

/** Each kill would log a warning. */
process.env.PAWL_LOG_LEVEL ??= 'silent'
const stopped = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
console.log('Starting Temporal, Postgres, two workers and a shop …')
const stack = await startStack()
let showcase: Showcase | undefined
try {
  showcase = await Promise.race([startShowcase({ stack, onScene: (title) => console.log(`  ${title}`) }), stopped.then(() => undefined)])
  if (showcase) {
    console.log(`\nThe console: ${showcase.consoleUrl}\n\nPress Ctrl-C to end everything.`)
    await stopped
  }
} finally {
  console.log('Ending …')
  await showcase?.stop()
  await stack.stop()
}
process.exit(0)
