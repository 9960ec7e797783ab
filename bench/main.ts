// `npm run bench -- <benchmark> [options]`: each benchmark is a file beside this one and reads its own options.
const BENCHMARKS: Record<string, () => Promise<{ run(args: string[]): Promise<void> }>> = {
  turn: () => import('./turn.ts'),
  resume: () => import('./resume.ts'),
  outage: () => import('./outage.ts'),
  interrupt: () => import('./interrupt.ts'),
  mind: () => import('./mind.ts'),
  cache: () => import('./cache.ts'),
  'crash-loop': () => import('./crash-loop.ts'),
  throughput: () => import('./throughput.ts'),
  footprint: () => import('./footprint.ts'),
  ageing: () => import('./ageing.ts'),
  files: () => import('./files.ts'),
  scheduled: () => import('./scheduled.ts'),
  webhooks: () => import('./webhooks.ts'),
  lists: () => import('./lists.ts'),
  mcp: () => import('./mcp.ts'),
  store: () => import('./store.ts'),
  budgets: () => import('./budgets.ts'),
  flushes: () => import('./flushes.ts'),
  stream: () => import('./stream.ts'),
  actions: () => import('./actions.ts'),
  agents: () => import('./agents.ts'),
  peers: () => import('./peers.ts'),
}

// The measured code must not print.
process.env.PAWL_LOG_LEVEL ??= 'warn'

const [name = '', ...args] = process.argv.slice(2)
const load = BENCHMARKS[name]
if (load) {
  const { run } = await load()
  await run(args)
} else {
  console.error(`There is no benchmark "${name}": choose from ${Object.keys(BENCHMARKS).join(', ')}, as in \`npm run bench -- turn\`.`)
  process.exitCode = 2
}
