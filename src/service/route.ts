// A route: what it accepts, who may call it, and what it returns. The handler and the OpenAPI document use the same routes.
import type { z } from 'zod'
import type { Pawl } from '../client/pawl.ts'
import type { SessionHandle } from '../client/types.ts'
import type { Access, Scope } from './access.ts'
import type { Streams } from './streams.ts'
import type { ErrorTexts } from '../ui/user-texts.ts'

/** Members of a request: a zod object that refuses unknown ones. */
export type RequestMembers = z.ZodObject<z.core.$ZodLooseShape, z.core.$strict>

/** What a route works with. */
export interface RouteCall<P, Q, B> {
  pawl: Pawl
  access: Access
  /** The caller's identity, as it is recorded. */
  by: string
  request: Request
  params: P
  query: Q
  body: B
  streams: Streams
  /** Agents that sessions may be started with; undefined if any is allowed. */
  agents: readonly string[] | undefined
  /** Which error texts chat pages receive. */
  errorTexts: ErrorTexts
  /** The handle of the session in the path or of another one. @throws SessionNotFoundError for one of another tenant. */
  session(id: string): SessionHandle
  /** Checks that the caller may still read the session, or, without an id, that the tenant is unchanged. @throws ServiceError. */
  reauthorize(sessionId?: string): Promise<void>
}

/** Approximate bytes that a request needs. */
export const MEMORY = {
  /** For a request that waits for a long time and holds little. */
  none: 0,
  little: 4_000_000,
  /** A page of rows or events. */
  page: 16_000_000,
  /** The outline of a session, and a page of it. */
  chat: 32_000_000,
} as const

/** A route's response on success. */
export interface RouteAnswer {
  status: 200 | 201 | 202 | 204
  description: string
  /**
   * The schema of the body, or of each event of a stream; `typed`: the one that answers.ts has for the operation. Absent if the response
   * has no body.
   */
  schema?: z.ZodType | 'typed'
  /** Default `application/json`. */
  type?: string
  /** Headers, with what they mean. */
  headers?: Readonly<Record<string, string>>
  /** What a 204 response means, if there may be nothing to return. */
  none?: string
}

/** A route; `P`, `Q`, `B`: the schemas of its path, query and body. */
export interface RouteOf<P extends RequestMembers, Q extends RequestMembers, B extends RequestMembers> {
  method: 'get' | 'post'
  /** The path, with parameters in braces. */
  path: string
  /** A name for generated clients. */
  operation: string
  summary: string
  tag: string
  scope: Scope
  params?: P
  query?: Q
  body?: B
  /** Headers that it reads, with what they mean. */
  headers?: Readonly<Record<string, z.ZodType>>
  answer: RouteAnswer
  /** The memory that the handler reserves for a request, besides that for its body. Default: `MEMORY.little`. */
  memory?: number | ((call: Pick<RouteCall<z.output<P>, never, never>, 'session' | 'params'>) => Promise<number>)
  handle(call: RouteCall<z.output<P>, z.output<Q>, z.output<B>>): Promise<unknown>
}

// oxlint-disable-next-line typescript/no-explicit-any -- each has its own schemas
export type Route = RouteOf<any, any, any>

type Nothing = z.ZodObject<Record<never, never>, z.core.$strict>

/** Declares a route; its schemas determine the types in `handle`. */
export function route<P extends RequestMembers = Nothing, Q extends RequestMembers = Nothing, B extends RequestMembers = Nothing>(
  declared: RouteOf<P, Q, B>,
): Route {
  return declared
}

/** An answer whose body is the one that answers.ts has for the operation. */
export function typed(description: string, status: 200 | 201 | 202 = 200): RouteAnswer {
  return { status, description, schema: 'typed' }
}

/** A response with the route's own headers. */
export function answerWith(value: unknown, status: number, headers: Record<string, string>): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
  })
}
