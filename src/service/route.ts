// A route: what it takes, who may ask it, what it answers. The handler and the OpenAPI document are made of the same routes.
import type { z } from 'zod'
import type { Pawl } from '../client/pawl.ts'
import type { SessionHandle } from '../client/types.ts'
import type { Access, Scope } from './access.ts'
import type { Streams } from './streams.ts'

/** Members of a request: a zod object that refuses what it does not know. */
export type Members = z.ZodObject<z.core.$ZodLooseShape, z.core.$strict>

/** What a route works with. */
export interface Call<P, Q, B> {
  pawl: Pawl
  access: Access
  /** The identity, as it is recorded. */
  by: string
  request: Request
  params: P
  query: Q
  body: B
  streams: Streams
  /** Agents that sessions may be started with; undefined: any. */
  agents: readonly string[] | undefined
  /** The handle of the session in the path or of another one. @throws SessionNotFound for one that is none of the caller's. */
  session(id: string): SessionHandle
  /** Whether the caller may still read it, or what they could. @throws ServiceError. */
  reauthorize(sessionId?: string): Promise<void>
}

/** What a route answers if all goes well. */
export interface Answer {
  status: 200 | 201 | 202 | 204
  description: string
  /** Of the body, or of each event of a stream; absent: there is no body. */
  schema?: z.ZodType
  /** Default `application/json`. */
  type?: string
  /** Headers, with what they mean. */
  headers?: Readonly<Record<string, string>>
}

/** A route; `P`, `Q`, `B`: the schemas of its path, query and body. */
export interface RouteOf<P extends Members, Q extends Members, B extends Members> {
  method: 'get' | 'post'
  /** With parameters in braces. */
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
  answer: Answer
  handle(call: Call<z.output<P>, z.output<Q>, z.output<B>>): Promise<unknown>
}

/** Any route. */
// oxlint-disable-next-line typescript/no-explicit-any -- each has schemas of its own
export type Route = RouteOf<any, any, any>

type Nothing = z.ZodObject<Record<never, never>, z.core.$strict>

/** Declares a route: its schemas type what it handles. */
export function route<P extends Members = Nothing, Q extends Members = Nothing, B extends Members = Nothing>(
  declared: RouteOf<P, Q, B>,
): Route {
  return declared
}

/** What a route returns to answer with headers of its own. */
export function answerWith(value: unknown, status: number, headers: Record<string, string>): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
  })
}
