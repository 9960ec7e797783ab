// Reads the server-sent events of a response.

/** After this long without anything from the server, its connection counts as lost: the server sends something every 15 s by default. */
export const SILENCE_MS = 60_000

/** One event, or only an id. */
export interface ServerSentEvent {
  id?: string
  event?: string
  data?: string
}

/** Yields the events as they arrive. Rejects if the connection breaks, or if nothing arrives for `silenceMs`. */
export async function* serverSent(body: ReadableStream<Uint8Array>, silenceMs: number): AsyncGenerator<ServerSentEvent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await within(silenceMs, reader.read())
      if (done) return
      text += decoder.decode(value, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) yield eventOf(block)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TypeError('network error: the server has fallen silent')), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function eventOf(block: string): ServerSentEvent {
  const event: ServerSentEvent = {}
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) event.id = line.slice(4)
    if (line.startsWith('event: ')) event.event = line.slice(7)
    if (line.startsWith('data: ')) event.data = line.slice(6)
  }
  return event
}
