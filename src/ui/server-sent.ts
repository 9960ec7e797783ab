// Reads the server-sent events of a response.

/** One event, or an id alone. */
export interface ServerSent {
  id?: string
  data?: string
}

/** Yields the events as they arrive; rejects if the connection breaks. */
export async function* serverSent(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
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

function eventOf(block: string): ServerSent {
  const event: ServerSent = {}
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) event.id = line.slice(4)
    if (line.startsWith('data: ')) event.data = line.slice(6)
  }
  return event
}
