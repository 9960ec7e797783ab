// What a prompt cache that works as Anthropic documents it would read and write for a series of requests. It shares no code with pawl.

interface Wire {
  tools?: unknown[]
  system?: unknown[]
  messages: { role: string; content: unknown[] }[]
}

/** Characters of one request: those that the cache had, those that it keeps, and all. */
export interface CacheUse {
  read: number
  written: number
  all: number
}

/** How far back from a breakpoint the cache looks for an earlier one. */
const LOOK_BACK = 20

/** The use of the cache by each request, in order. */
export function cacheUses(requests: readonly Wire[]): CacheUse[] {
  const kept = new Set<string>()
  return requests.map((request) => {
    const { prefixes, breakpoints } = blocksOf(request)
    const from = breakpoints.flatMap((at) => prefixes.slice(Math.max(0, at - LOOK_BACK), at + 1))
    const read = Math.max(0, ...from.filter((prefix) => kept.has(prefix)).map(({ length }) => length))
    const written = breakpoints.map((at) => prefixes[at] ?? '')
    for (const prefix of written) kept.add(prefix)
    return { read, written: Math.max(0, ...written.map(({ length }) => length)), all: prefixes.at(-1)?.length ?? 0 }
  })
}

/** The request up to each of its blocks, and which blocks have a breakpoint. */
function blocksOf({ tools = [], system = [], messages }: Wire): { prefixes: string[]; breakpoints: number[] } {
  const blocks = [...tools, ...system, ...messages.flatMap(({ role, content }) => content.map((block) => ({ role, ...(block as object) })))]
  let prefix = ''
  const prefixes = blocks.map((block) => {
    const { cache_control: _, ...rest } = block as { cache_control?: unknown }
    prefix += JSON.stringify(rest)
    return prefix
  })
  return { prefixes, breakpoints: blocks.flatMap((block, at) => ('cache_control' in (block as object) ? [at] : [])) }
}
