// Shared by the tools: the shop as a service, and how the shop identifies a call.
import { defineTool, type Json, type ToolContext } from 'pawl'
import type { ShopCall, ShopClient } from '../shop/client.ts'

/** The tools' `ctx.services`. */
export interface DeskServices {
  shop: ShopClient
}

/** Declares a tool whose `ctx.services` are the desk's. */
export const deskTool = defineTool.withTypes<{ services: DeskServices }>()

/** Talks to the shop on behalf of a tool call. */
export function shopFor(ctx: ToolContext<Json, DeskServices>): {
  get<T>(path: string): Promise<T>
  send<T>(method: 'POST' | 'PUT', path: string, body: object, options?: Pick<ShopCall, 'key'>): Promise<T>
} {
  const { shop } = ctx.services
  const call = { signal: ctx.signal, requestId: `${ctx.sessionId}/${ctx.callId}/${ctx.attempt}` }
  return {
    get: (path) => shop.request('GET', path, call),
    send: (method, path, body, options) => shop.request(method, path, { ...call, ...options, body }),
  }
}

/** A path with its variable parts encoded. */
export function path(parts: TemplateStringsArray, ...values: string[]): string {
  return String.raw({ raw: parts }, ...values.map(encodeURIComponent))
}
