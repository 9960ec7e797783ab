// The limit of a list that a server sends in pages. The SDK limits their number, and each of them may be as large as any answer.
import type { Client } from '@modelcontextprotocol/client'
import { isObject } from '../../session/json.ts'

type SendRequest = (asked: { method: string; params?: unknown }, ...options: unknown[]) => Promise<unknown>

/**
 * Lets the reading of a list of tools fail once its pages have more than `maxBytes` in all. The SDK reads them one after another, and offers
 * no way between two of them.
 */
export function limitLists(client: Client, maxBytes: number): void {
  const own = client as unknown as { request: SendRequest }
  const request = own.request.bind(client)
  let bytes = 0
  own.request = async (asked, ...options) => {
    const answer = await request(asked, ...options)
    if (asked.method !== 'tools/list') return answer
    const isFirst = !isObject(asked.params) || asked.params.cursor === undefined
    bytes = (isFirst ? 0 : bytes) + Buffer.byteLength(JSON.stringify(answer))
    if (bytes > maxBytes)
      throw new Error(`the list of its tools has more than ${maxBytes.toLocaleString('en-US')} bytes. Raise maxResultBytes.`)
    return answer
  }
}
